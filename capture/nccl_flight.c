#include "capture/nccl_flight.h"

static uint64_t state_of(const bt_flight *flight) {
  return __atomic_load_n(&flight->state, __ATOMIC_ACQUIRE);
}
static uint32_t generation_of(uint64_t state) {
  return (uint32_t)(state >> 32);
}
static bool is_flying(uint64_t state) {
  return (generation_of(state) & 1) != 0;
}

/* Each message its part, if all have told theirs; claimed. */
static void hand_over(bt_flight *flight, bool told) {
  uint64_t base = UINT64_MAX;
  for (uint32_t i = 0; told && i < flight->parts; i++) {
    uint64_t first = __atomic_load_n(&flight->part[i].first, __ATOMIC_RELAXED);
    told = first <= __atomic_load_n(&flight->part[i].last, __ATOMIC_RELAXED);
    if (first < base) base = first;
  }
  for (uint32_t i = 0; told && i < flight->parts; i++)
    bubbletop_cuda_part(&flight->launch, i, (int64_t)(flight->part[i].first - base),
                        (int64_t)(flight->part[i].last - base));
  bubbletop_cuda_end(&flight->launch);
}

static void give_up(bt_flight *flight) {
  uint64_t state = state_of(flight);
  while (is_flying(state)) {
    uint64_t over = (uint64_t)(generation_of(state) + 1) << 32;
    if (!__atomic_compare_exchange_n(&flight->state, &state, over, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
    hand_over(flight, false);
    return;
  }
}

/* One that is counted is done; the last one hands over. */
static void land(bt_flight *flight, uint32_t generation) {
  uint64_t state = state_of(flight);
  while (generation_of(state) == generation && (uint32_t)state > 0) {
    bool last = (uint32_t)state == 1;
    uint64_t next = last ? (uint64_t)(generation + 1) << 32 : state - 1;
    if (!__atomic_compare_exchange_n(&flight->state, &state, next, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue;
    if (last) hand_over(flight, true);
    return;
  }
}

bt_flight *bt_flight_begin(bt_flights *all) {
  bt_flight *flight = &all->items[all->next++ % BT_FLIGHTS];
  give_up(flight);
  flight->parts = 0;
  uint32_t generation = generation_of(state_of(flight)) + 1;
  __atomic_store_n(&flight->state, (uint64_t)generation << 32 | 1, __ATOMIC_RELEASE);
  return flight;
}

bool bt_flight_add(bt_flights *all, bt_flight *flight, uint32_t channels, bt_flight_place *place) {
  uint32_t part = flight->parts;
  if (part == BT_FLIGHT_PARTS || channels == 0) {
    __atomic_add_fetch(&flight->state, 1, __ATOMIC_RELAXED); /* nobody counts it down: it is given up in time */
    return false;
  }
  flight->part[part] = (bt_flight_part){UINT64_MAX, 0};
  flight->parts = part + 1;
  uint64_t state = __atomic_add_fetch(&flight->state, channels, __ATOMIC_RELEASE);
  *place = (bt_flight_place){generation_of(state), (uint8_t)(flight - all->items), (uint8_t)part};
  return true;
}

void bt_flight_close(bt_flight *flight) {
  land(flight, generation_of(state_of(flight)));
}

void bt_flights_give_up(bt_flights *all) {
  for (int i = 0; i < BT_FLIGHTS; i++)
    give_up(&all->items[i]);
}

/* NULL: it has been handed over. */
static bt_flight *flight_at(bt_flights *all, bt_flight_place place) {
  bt_flight *flight = &all->items[place.flight % BT_FLIGHTS];
  uint64_t state = state_of(flight);
  return is_flying(state) && generation_of(state) == place.generation ? flight : NULL;
}

void bt_flight_channel_begin(bt_flights *all, bt_flight_place place, uint64_t timer) {
  bt_flight *flight = flight_at(all, place);
  if (flight == NULL) return;
  uint64_t *first = &flight->part[place.part % BT_FLIGHT_PARTS].first;
  uint64_t seen = __atomic_load_n(first, __ATOMIC_RELAXED);
  while (timer < seen && !__atomic_compare_exchange_n(first, &seen, timer, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
}

void bt_flight_channel_end(bt_flights *all, bt_flight_place place, uint64_t timer) {
  bt_flight *flight = flight_at(all, place);
  if (flight == NULL) return;
  uint64_t *last = &flight->part[place.part % BT_FLIGHT_PARTS].last;
  uint64_t seen = __atomic_load_n(last, __ATOMIC_RELAXED);
  while (timer > seen && !__atomic_compare_exchange_n(last, &seen, timer, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    continue;
  land(flight, place.generation);
}
