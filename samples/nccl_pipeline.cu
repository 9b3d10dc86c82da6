/* nccl_pipeline: pipeline-parallel training over NCCL, one process a GPU, captured with libbubbletop on the GPU's clock.
 *
 * A stage is one square layer. Every link between two stages has a communicator and a stream for each direction, so that
 * activations and gradients pass each other. Schedules: 1f1b, zb-h1.
 *   torchrun-like environment: RANK, WORLD_SIZE, LOCAL_RANK; --rendezvous FILE on a file system that all ranks see.
 */
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

#include "capture/bubbletop_cuda.h"
#include "capture/bubbletop_tool.h"

#define CUDA(call)                                                                                                     \
  do {                                                                                                                 \
    cudaError_t status_ = (call);                                                                                      \
    if (status_ != cudaSuccess) fail(#call, cudaGetErrorString(status_));                                              \
  } while (0)
#define NCCL(call)                                                                                                     \
  do {                                                                                                                 \
    ncclResult_t status_ = (call);                                                                                     \
    if (status_ != ncclSuccess) fail(#call, ncclGetErrorString(status_));                                              \
  } while (0)

static void fail(const char *what, const char *why) {
  fprintf(stderr, "nccl_pipeline: %s: %s\n", what, why);
  exit(1);
}

/* c (+)= op(a) op(b), all n by n. */
__global__ void multiply(const float *a, const float *b, float *c, int n, bool transpose_a, bool transpose_b, bool add) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n || column >= n) return;
  float sum = add ? c[row * n + column] : 0;
  for (int k = 0; k < n; k++)
    sum += (transpose_a ? a[k * n + row] : a[row * n + k]) * (transpose_b ? b[column * n + k] : b[k * n + column]);
  c[row * n + column] = sum;
}

__global__ void descend(float *weight, float *gradient, int count, float rate) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  weight[i] -= rate * gradient[i];
  gradient[i] = 0;
}

__global__ void fill(float *out, int count, float value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = value * (float)(i % 7 - 3);
}

struct channel { /* one direction of one neighbour */
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int peer = -1; /* global */
};

struct trainer {
  int rank = 0, world = 1, size = 512, microbatches = 8, steps = 10;
  bool zero_bubble = false;
  const char *rendezvous = nullptr;
  ncclComm_t all = nullptr;
  cudaStream_t compute = nullptr;
  channel f_in, f_out, b_in, b_out;
  std::vector<float *> x, y, dy, dx; /* by microbatch */
  float *weight = nullptr, *gradient = nullptr;
  bubbletop_session *session = nullptr;
};

static int number_of(const char *name, int fallback) {
  const char *text = getenv(name);
  return text != nullptr ? atoi(text) : fallback;
}

/* Rank 0 writes NCCL's id into a file, the others wait for it. */
static ncclUniqueId exchange_id(const trainer &t) {
  ncclUniqueId id;
  if (t.world > 1 && t.rendezvous == nullptr) fail("--rendezvous FILE", "is needed for more than one rank");
  if (t.rank == 0) {
    NCCL(ncclGetUniqueId(&id));
    if (t.rendezvous == nullptr) return id;
    std::string part = std::string(t.rendezvous) + ".part";
    FILE *out = fopen(part.c_str(), "wb");
    if (out == nullptr || fwrite(&id, sizeof id, 1, out) != 1 || fclose(out) != 0) fail(t.rendezvous, "cannot be written");
    if (rename(part.c_str(), t.rendezvous) != 0) fail(t.rendezvous, "cannot be written");
    return id;
  }
  for (int i = 0; i < 6000; i++) {
    FILE *in = fopen(t.rendezvous, "rb");
    if (in != nullptr && fread(&id, sizeof id, 1, in) == 1) return fclose(in), id;
    if (in != nullptr) fclose(in);
    usleep(10000);
  }
  fail(t.rendezvous, "rank 0 did not come");
  return id;
}

static channel join(const trainer &t, int from, int to) {
  channel made;
  bool member = t.rank == from || t.rank == to;
  NCCL(ncclCommSplit(t.all, member ? 0 : NCCL_SPLIT_NOCOLOR, t.rank, &made.comm, nullptr));
  if (!member) return made;
  made.peer = t.rank == from ? to : from;
  CUDA(cudaStreamCreateWithFlags(&made.stream, cudaStreamNonBlocking));
  return made;
}

static void connect(trainer &t) {
  NCCL(ncclCommInitRank(&t.all, t.world, exchange_id(t), t.rank));
  for (int stage = 0; stage + 1 < t.world; stage++) {
    channel ahead = join(t, stage, stage + 1);
    channel behind = join(t, stage + 1, stage);
    if (stage == t.rank) t.f_out = ahead, t.b_in = behind;
    if (stage + 1 == t.rank) t.f_in = ahead, t.b_out = behind;
  }
}

static float *buffer(const trainer &t, float value) {
  float *made = nullptr;
  int count = t.size * t.size;
  CUDA(cudaMalloc(&made, sizeof(float) * (size_t)count));
  fill<<<(count + 255) / 256, 256, 0, t.compute>>>(made, count, value);
  return made;
}

static void product(const trainer &t, const float *a, const float *b, float *c, bool ta, bool tb, bool add) {
  dim3 block(16, 16), grid((t.size + 15) / 16, (t.size + 15) / 16);
  multiply<<<grid, block, 0, t.compute>>>(a, b, c, t.size, ta, tb, add);
}

/* The message on its link's stream, behind what `after` has now. */
static cudaEvent_t message(const trainer &t, const channel &on, bubbletop_kind kind, float *data, int microbatch,
                           cudaStream_t after) {
  bool sends = kind == BUBBLETOP_SEND_F || kind == BUBBLETOP_SEND_B;
  bubbletop_comm comm = BUBBLETOP_COMM_INIT;
  bubbletop_cuda_span span;
  cudaEvent_t done;
  comm.peer = on.peer;
  comm.bytes = (int64_t)sizeof(float) * t.size * t.size;
  CUDA(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  if (after != nullptr) {
    CUDA(cudaEventRecord(done, after));
    CUDA(cudaStreamWaitEvent(on.stream, done, 0));
  }
  int other = on.peer > t.rank; /* members of a link are in the order of ranks */
  size_t count = (size_t)t.size * (size_t)t.size;
  bubbletop_cuda_comm_begin(t.session, &span, kind, bubbletop_at(microbatch, 0), &comm, on.stream);
  if (sends)
    NCCL(ncclSend(data, count, ncclFloat, other, on.comm, on.stream));
  else
    NCCL(ncclRecv(data, count, ncclFloat, other, on.comm, on.stream));
  bubbletop_cuda_end(&span);
  CUDA(cudaEventRecord(done, on.stream));
  return done;
}

/* Receives, and has the compute stream wait for it: a gate. */
static void receive(const trainer &t, const channel &on, bubbletop_kind kind, float *data, int microbatch) {
  cudaEvent_t done = message(t, on, kind, data, microbatch, nullptr);
  bubbletop_gate_on gate = {sizeof gate, kind, on.peer, 0, -1, 1};
  bubbletop_cuda_span span;
  bubbletop_cuda_gate_begin(t.session, &span, bubbletop_at(microbatch, 0), &gate, t.compute);
  CUDA(cudaStreamWaitEvent(t.compute, done, 0));
  bubbletop_cuda_end(&span);
  CUDA(cudaEventDestroy(done));
}

static void send(const trainer &t, const channel &on, bubbletop_kind kind, float *data, int microbatch) {
  CUDA(cudaEventDestroy(message(t, on, kind, data, microbatch, t.compute)));
}

static void forward(trainer &t, int m) {
  bubbletop_cuda_span span;
  if (t.f_in.comm != nullptr) receive(t, t.f_in, BUBBLETOP_RECV_F, t.x[m], m);
  bubbletop_cuda_begin(t.session, &span, BUBBLETOP_F, bubbletop_at(m, 0), t.compute);
  product(t, t.x[m], t.weight, t.y[m], false, false, false);
  bubbletop_cuda_end(&span);
  if (t.f_out.comm != nullptr) send(t, t.f_out, BUBBLETOP_SEND_F, t.y[m], m);
}

static void weight_gradient(trainer &t, int m) {
  product(t, t.x[m], t.dy[m], t.gradient, true, false, true);
}

static void backward(trainer &t, int m) {
  bubbletop_cuda_span span;
  if (t.b_in.comm != nullptr) receive(t, t.b_in, BUBBLETOP_RECV_B, t.dy[m], m);
  bubbletop_cuda_begin(t.session, &span, t.zero_bubble ? BUBBLETOP_B : BUBBLETOP_BW, bubbletop_at(m, 0), t.compute);
  product(t, t.b_in.comm != nullptr ? t.dy[m] : t.y[m], t.weight, t.dx[m], false, true, false);
  if (!t.zero_bubble) weight_gradient(t, m);
  bubbletop_cuda_end(&span);
  if (t.b_out.comm != nullptr) send(t, t.b_out, BUBBLETOP_SEND_B, t.dx[m], m);
}

static void weights(trainer &t, int m) {
  bubbletop_cuda_span span;
  bubbletop_cuda_begin(t.session, &span, BUBBLETOP_W, bubbletop_at(m, 0), t.compute);
  weight_gradient(t, m);
  bubbletop_cuda_end(&span);
}

/* zb-h1 is 1f1b whose weight gradients come `rank` backwards later. */
static void step(trainer &t, int number) {
  int ahead = t.world - 1 - t.rank < t.microbatches ? t.world - 1 - t.rank : t.microbatches;
  int done = 0;
  bubbletop_step_begin(t.session, number);
  for (int i = 0; i < t.microbatches + ahead; i++) {
    if (i < t.microbatches) forward(t, i);
    if (i < ahead) continue;
    backward(t, i - ahead);
    if (t.zero_bubble && i - ahead >= t.rank) weights(t, done++);
  }
  while (t.zero_bubble && done < t.microbatches)
    weights(t, done++);
  bubbletop_cuda_span span;
  int count = t.size * t.size;
  bubbletop_cuda_begin(t.session, &span, BUBBLETOP_OPTIMIZER, bubbletop_at(-1, -1), t.compute);
  descend<<<(count + 255) / 256, 256, 0, t.compute>>>(t.weight, t.gradient, count, 1e-6f);
  bubbletop_cuda_end(&span);
  CUDA(cudaStreamSynchronize(t.compute));
  bubbletop_step_end(t.session, number);
}

static void set_up(trainer &t) {
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  CUDA(cudaSetDevice(number_of("LOCAL_RANK", t.rank) % devices));
  CUDA(cudaStreamCreateWithFlags(&t.compute, cudaStreamNonBlocking));
  connect(t);
  for (int m = 0; m < t.microbatches; m++) {
    t.x.push_back(buffer(t, 1e-2f));
    t.y.push_back(buffer(t, 0));
    t.dy.push_back(buffer(t, 1e-3f));
    t.dx.push_back(buffer(t, 0));
  }
  t.weight = buffer(t, 1e-3f);
  t.gradient = buffer(t, 0);
  CUDA(cudaStreamSynchronize(t.compute));
  bubbletop_layout layout = BUBBLETOP_LAYOUT_INIT;
  layout.pp_rank = t.rank;
  layout.pp_size = t.world;
  layout.chunks = 1;
  layout.microbatches = t.microbatches;
  layout.w_separable = t.zero_bubble;
  if (bubbletop_open(nullptr, &t.session) < 0) fprintf(stderr, "nccl_pipeline: no capture: %s\n", bubbletop_last_error());
  bubbletop_layout_set(t.session, &layout);
  bubbletop_see(t.session, BUBBLETOP_SOURCE_ADAPTER, BUBBLETOP_SIGHT_P2P); /* the plugin need not record them again */
}

int main(int argc, char **argv) {
  trainer t;
  t.rank = number_of("RANK", 0);
  t.world = number_of("WORLD_SIZE", 1);
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string option = argv[i];
    const char *value = argv[i + 1];
    if (option == "--schedule") t.zero_bubble = strcmp(value, "zb-h1") == 0;
    else if (option == "--microbatches") t.microbatches = atoi(value);
    else if (option == "--size") t.size = atoi(value);
    else if (option == "--steps") t.steps = atoi(value);
    else if (option == "--rendezvous") t.rendezvous = value;
    else fail(argv[i], "--schedule 1f1b|zb-h1, --microbatches, --size, --steps or --rendezvous FILE is meant?");
  }
  set_up(t);
  int64_t begin = bubbletop_now();
  for (int i = 0; i < t.steps; i++)
    step(t, i);
  if (t.rank == 0) printf("%d steps of %.3f ms\n", t.steps, (double)(bubbletop_now() - begin) / 1e6 / t.steps);
  CUDA(cudaDeviceSynchronize());
  return bubbletop_close(t.session, 0) < 0;
}
