#include "formats/trace.h"

#include <stdlib.h>
#include <string.h>

#include "formats/array.h"
#include "formats/track.h"

bt_lane bt_lane_of(unsigned code) {
  if (bt_code_is_p2p(code)) return BT_LANE_P2P;
  if (bt_code_is_collective(code)) return BT_LANE_COLLECTIVE;
  return code == BT_HOST ? BT_LANE_HOST : BT_LANE_COMPUTE;
}

const char *bt_lane_name(bt_lane lane) {
  static const char *const names[BT_LANE_COUNT] = {"compute", "p2p", "collective", "host"};
  return (unsigned)lane < BT_LANE_COUNT ? names[lane] : "?";
}

bt_status bt_trace_new(bt_trace **trace) {
  *trace = calloc(1, sizeof **trace);
  if (*trace == NULL) return BT_ERR_NOMEM;
  (*trace)->world_size = -1;
  return BT_OK;
}

static void free_rank(bt_rank *rank) {
  for (int lane = 0; lane < BT_LANE_COUNT; lane++) {
    bt_track_free(&rank->tracks[lane]);
  }
  for (size_t i = 0; i < rank->group_count; i++) {
    free(rank->groups[i].runs);
  }
  free(rank->steps);
  free(rank->groups);
  free(rank->marks);
  free(rank->open);
  free(rank->losses);
  free(rank->clocks);
  free(rank->lives);
}

void bt_trace_forget_joined(bt_trace *trace) {
  for (size_t i = 0; i < trace->joined_count; i++)
    free(trace->joined[i].members);
  free(trace->joined);
  trace->joined = NULL;
  trace->joined_count = 0;
}

void bt_trace_free(bt_trace *trace) {
  if (trace == NULL) return;
  for (size_t i = 0; i < trace->rank_count; i++) {
    free_rank(&trace->ranks[i]);
  }
  for (size_t i = 0; i < trace->name_count; i++) {
    free(trace->names[i]);
  }
  free(trace->ranks);
  free(trace->hosts);
  free(trace->names);
  free(trace->name_table);
  bt_trace_forget_joined(trace);
  free(trace);
}

static size_t rank_place(const bt_trace *trace, int32_t rank) {
  size_t low = 0;
  size_t high = trace->rank_count;
  if (high > 0 && trace->ranks[high - 1].rank < rank) return high;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (trace->ranks[middle].rank < rank) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

const bt_rank *bt_trace_find(const bt_trace *trace, int32_t rank) {
  size_t place = rank_place(trace, rank);
  return place < trace->rank_count && trace->ranks[place].rank == rank ? &trace->ranks[place] : NULL;
}

bt_rank *bt_trace_rank(bt_trace *trace, int32_t rank) {
  if (rank < 0 || rank > BT_MAX_RANK) return NULL;
  size_t place = rank_place(trace, rank);
  if (place < trace->rank_count && trace->ranks[place].rank == rank) return &trace->ranks[place];
  if (!bt_array_reserve(&trace->ranks, &trace->rank_capacity, trace->rank_count + 1, sizeof(bt_rank))) return NULL;
  bt_rank *fresh = &trace->ranks[place];
  memmove(fresh + 1, fresh, (trace->rank_count - place) * sizeof *fresh);
  memset(fresh, 0, sizeof *fresh);
  fresh->rank = rank;
  bt_layout_init(&fresh->layout);
  fresh->host = UINT32_MAX;
  fresh->first = INT64_MAX;
  fresh->last = INT64_MIN;
  fresh->heartbeat = INT64_MIN;
  fresh->most_chunk = -1;
  trace->rank_count++;
  trace->generation++;
  return fresh;
}

static void copy_text(char *to, size_t room, const char *from) {
  size_t length = strnlen(from, room - 1);
  memcpy(to, from, length);
  to[length] = '\0';
}

uint32_t bt_trace_host(bt_trace *trace, const char *name, const char *boot_id, uint64_t time_namespace) {
  bt_host wanted = {.time_namespace = time_namespace};
  copy_text(wanted.name, sizeof wanted.name, name);
  copy_text(wanted.boot_id, sizeof wanted.boot_id, boot_id);
  for (size_t i = trace->host_count; i-- > 0;) { /* from the newest: ranks of a host come together */
    const bt_host *host = &trace->hosts[i];
    if (host->time_namespace == time_namespace && strcmp(host->boot_id, wanted.boot_id) == 0 &&
        (wanted.boot_id[0] != '\0' || strcmp(host->name, wanted.name) == 0)) {
      return (uint32_t)i;
    }
  }
  if (trace->host_count == BT_MAX_HOSTS) return UINT32_MAX;
  if (!bt_array_reserve(&trace->hosts, &trace->host_capacity, trace->host_count + 1, sizeof(bt_host))) {
    return UINT32_MAX;
  }
  trace->hosts[trace->host_count] = wanted;
  return (uint32_t)trace->host_count++;
}

static uint32_t hash_text(const char *text, size_t length) {
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < length; i++) {
    hash = (hash ^ (uint8_t)text[i]) * 16777619u;
  }
  return hash;
}

static bool grow_name_table(bt_trace *trace) {
  size_t size = trace->name_table_size == 0 ? 64 : trace->name_table_size * 2;
  uint32_t *table = calloc(size, sizeof *table);
  if (table == NULL) return false;
  for (size_t i = 0; i < trace->name_count; i++) {
    size_t at = hash_text(trace->names[i], strlen(trace->names[i])) & (size - 1);
    while (table[at] != 0)
      at = (at + 1) & (size - 1);
    table[at] = (uint32_t)i + 1;
  }
  free(trace->name_table);
  trace->name_table = table;
  trace->name_table_size = size;
  return true;
}

uint32_t bt_trace_name(bt_trace *trace, const char *text, size_t length) {
  const char *zero = memchr(text, '\0', length); /* names are C strings inside */
  if (zero != NULL) length = (size_t)(zero - text);
  if (length > BT_MAX_TEXT) length = BT_MAX_TEXT;
  if (trace->name_count * 2 >= trace->name_table_size && !grow_name_table(trace)) return UINT32_MAX;
  size_t mask = trace->name_table_size - 1;
  size_t at = hash_text(text, length) & mask;
  for (; trace->name_table[at] != 0; at = (at + 1) & mask) {
    uint32_t index = trace->name_table[at] - 1;
    if (strncmp(trace->names[index], text, length) == 0 && trace->names[index][length] == '\0') return index;
  }
  if (trace->name_count == BT_MAX_NAMES) return UINT32_MAX;
  if (!bt_array_reserve(&trace->names, &trace->name_capacity, trace->name_count + 1, sizeof(char *))) return UINT32_MAX;
  char *copy = strndup(text, length);
  if (copy == NULL) return UINT32_MAX;
  trace->names[trace->name_count++] = copy;
  trace->name_table[at] = (uint32_t)trace->name_count;
  return (uint32_t)trace->name_count - 1;
}

bt_life *bt_trace_life(bt_rank *rank, uint32_t life) {
  if (rank->last_life < rank->life_count && rank->lives[rank->last_life].life == life) {
    return &rank->lives[rank->last_life];
  }
  size_t place = rank->life_count;
  while (place > 0 && rank->lives[place - 1].life >= life)
    place--;
  if (place == rank->life_count || rank->lives[place].life != life) {
    if (rank->life_count == BT_MAX_LIVES) return NULL;
    if (!bt_array_reserve(&rank->lives, &rank->life_capacity, rank->life_count + 1, sizeof(bt_life))) return NULL;
    bt_life *fresh = &rank->lives[place];
    memmove(fresh + 1, fresh, (rank->life_count - place) * sizeof *fresh);
    *fresh = (bt_life){.life = life, .pid = -1, .first = INT64_MAX, .last = INT64_MIN, .host = UINT32_MAX};
    rank->life_count++;
  }
  rank->last_life = place;
  return &rank->lives[place];
}

static void merge_layout(bt_layout *layout, const bt_layout *news) {
  int32_t *to[] = {&layout->pp_rank,        &layout->pp_size,    &layout->tp_rank,    &layout->tp_size,
                   &layout->dp_rank,        &layout->dp_size,    &layout->cp_rank,    &layout->cp_size,
                   &layout->ep_rank,        &layout->ep_size,    &layout->chunks,     &layout->microbatches,
                   &layout->virtual_stages, &layout->zero_stage, &layout->w_separable};
  const int32_t from[] = {news->pp_rank, news->pp_size,      news->tp_rank,        news->tp_size,    news->dp_rank,
                          news->dp_size, news->cp_rank,      news->cp_size,        news->ep_rank,    news->ep_size,
                          news->chunks,  news->microbatches, news->virtual_stages, news->zero_stage, news->w_separable};
  for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
    if (from[i] != -1) *to[i] = from[i];
  }
  for (size_t i = 0; i < BT_MAX_CHUNKS; i++) {
    if (news->vstage[i] != -1) layout->vstage[i] = news->vstage[i];
  }
  if (news->schedule[0] != '\0') memcpy(layout->schedule, news->schedule, sizeof layout->schedule);
}

bt_status bt_trace_header(bt_trace *trace, bt_rank *rank, const bt_header *header) {
  bt_life *life = bt_trace_life(rank, header->life);
  if (life == NULL) return rank->life_count == BT_MAX_LIVES ? BT_ERR_LIMIT : BT_ERR_NOMEM;
  uint32_t host = bt_trace_host(trace, header->host, header->boot_id, header->time_namespace);
  if (host == UINT32_MAX) return trace->host_count == BT_MAX_HOSTS ? BT_ERR_LIMIT : BT_ERR_NOMEM;
  if (!bt_array_reserve(&rank->clocks, &rank->clock_capacity, rank->clock_count + 1, sizeof(bt_clock_pair))) {
    return BT_ERR_NOMEM;
  }
  life->host = host;
  life->pid = header->pid;
  memcpy(life->marker, header->marker, sizeof life->marker);
  life->recoverable = header->recoverable != 0;
  if (header->recovered != 0) life->recovered = true;
  bool newest = life == &rank->lives[rank->life_count - 1];
  if (newest) {
    rank->host = host;
    bt_layout before = rank->layout;
    merge_layout(&rank->layout, &header->layout);
    if (memcmp(&before, &rank->layout, sizeof before) != 0) trace->definitions++;
  }
  if (header->mono_ns != 0 || header->real_ns != 0) {
    rank->clocks[rank->clock_count++] = (bt_clock_pair){header->mono_ns, header->real_ns};
  }
  if (header->world_size > trace->world_size) trace->world_size = header->world_size;
  if (trace->run_id[0] == '\0') copy_text(trace->run_id, sizeof trace->run_id, header->run_id);
  trace->generation++;
  return BT_OK;
}

bt_status bt_trace_loss(bt_trace *trace, bt_rank *rank, const bt_loss *loss) {
  if (!bt_array_reserve(&rank->losses, &rank->loss_capacity, rank->loss_count + 1, sizeof(bt_loss))) {
    return BT_ERR_NOMEM;
  }
  rank->losses[rank->loss_count++] = *loss;
  trace->generation++;
  return BT_OK;
}

int32_t bt_joined_member(const bt_joined *joined, int32_t place) {
  if (joined->known == joined->count) /* each is at its place */
    return place >= 0 && place < joined->known ? joined->members[place].rank : -1;
  int32_t low = 0;
  int32_t high = joined->known;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (joined->members[middle].place < place)
      low = middle + 1;
    else
      high = middle;
  }
  return low < joined->known && joined->members[low].place == place ? joined->members[low].rank : -1;
}

int32_t bt_trace_open_peer(const bt_rank *rank, const bt_open_span *open) {
  const bt_event *event = &open->event;
  uint32_t at = 0;
  while (event->group != 0 && at < rank->group_count &&
         (rank->groups[at].id != event->group || rank->groups[at].life != open->life))
    at++;
  return event->group == 0 ? event->peer : bt_trace_peer(rank, at < rank->group_count ? at + 1 : 0, event->peer);
}

int32_t bt_rank_stage(const bt_rank *rank) {
  return rank->layout.pp_rank >= 0 ? rank->layout.pp_rank : rank->rank;
}

int32_t bt_rank_replica(const bt_rank *rank) {
  return rank->layout.dp_rank >= 0 ? rank->layout.dp_rank : 0;
}

int32_t bt_rank_vstage(const bt_rank *rank, int32_t chunk) {
  const bt_layout *layout = &rank->layout;
  if (chunk < 0) chunk = 0;
  if (chunk < BT_MAX_CHUNKS && layout->vstage[chunk] >= 0) return layout->vstage[chunk];
  int64_t stages = layout->pp_size > 0 ? layout->pp_size : 1;
  int64_t vstage = chunk * stages + bt_rank_stage(rank);
  return vstage <= INT32_MAX ? (int32_t)vstage : INT32_MAX;
}
