/*
 * A dumbbell of FLOWS Reno senders in the simulator: each has links of its own
 * to and from the bottleneck.
 *
 *   dumbbell-ours FLOWS MBIT_PER_S SECONDS     prints packet-hops, CPU seconds,
 * goodput in Mbit/s
 *
 * A hop is a packet, data or ACK, passing a link. The bottleneck has 20 ms of
 * delay and a queue of one bandwidth-delay product, each other link 1 Gbit/s
 * and 5 ms: 80 ms there and back. Packets have 1500 bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "rewindow.h"

#define MS 1000000ll

static void must(rw_status status, const rw_error *error) {
  if (status == RW_OK)
    return;
  fprintf(stderr, "%s\n", error->reason);
  exit(1);
}

static uint32_t add_link(rw_simulation *s, uint64_t rate_bps, uint64_t delay_ms,
                         uint64_t limit) {
  rw_link_values values = {
      .rate_bps = rate_bps, .delay_ns = delay_ms * MS, .limit_packets = limit};
  uint32_t link;
  rw_error error;
  must(rw_simulation_add_link(s, &values, &link, &error), &error);
  return link;
}

static void add_flow(rw_simulation *s, uint32_t number, uint32_t there,
                     uint32_t back, int64_t end_ns) {
  const uint64_t access_bps = 1000000000, buffer_bytes = 16 << 20;
  const uint32_t mtu = 1500, none = 0;
  rw_transfer_settings settings = {.start_ns = number % 100 * MS,
                                   .stop_ns = end_ns,
                                   .write_bytes = 65536,
                                   .send_buffer_bytes = buffer_bytes,
                                   .receive_buffer_bytes = buffer_bytes,
                                   .sack = 1,
                                   .timestamps = 1};
  rw_choice reno = {"newreno", NULL, 0};
  rw_path_ends ends = {
      .mtu_bytes = mtu, .family = 4, .from_port = 1, .to_port = 2};
  uint32_t transfer;
  rw_error error;
  must(rw_simulation_add_transfer(s, &settings, &reno, &transfer, &error),
       &error);
  uint32_t data[] = {add_link(s, access_bps, 5, none), there,
                     add_link(s, access_bps, 5, none)};
  uint32_t acks[] = {add_link(s, access_bps, 5, none), back,
                     add_link(s, access_bps, 5, none)};
  must(rw_simulation_add_path(s, data, 3, acks, 3, &ends, &error), &error);
}

static uint64_t hops(const rw_simulation *s, uint32_t links) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < links; i++) {
    rw_link_counts_row row;
    rw_simulation_link(s, i, &row);
    sum += row.forwarded;
  }
  return sum;
}

int main(int count, char **word) {
  if (count != 4)
    return 2;
  uint32_t flows = (uint32_t)strtoul(word[1], NULL, 10);
  uint64_t rate_bps = strtoull(word[2], NULL, 10) * 1000000,
           packets = rate_bps / 8 * 8 / 100 / 1500;
  int64_t end_ns = strtoll(word[3], NULL, 10) * 1000 * MS;
  rw_simulation *s;
  rw_error error;
  clock_t began = clock();
  must(rw_simulation_open(&s, 1, 4 * MS, 0, &error), &error);
  uint32_t there = add_link(s, rate_bps, 20, packets),
           back = add_link(s, rate_bps, 20, 0);
  for (uint32_t i = 0; i < flows; i++)
    add_flow(s, i, there, back, end_ns);
  must(rw_simulation_run(s, end_ns, &error), &error);
  double cpu_s = (double)(clock() - began) / CLOCKS_PER_SEC;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < flows; i++) {
    rw_transfer_row row;
    rw_simulation_transfer(s, i, &row);
    bytes += row.bytes;
  }
  printf("%llu %.6f %.3f\n", (unsigned long long)hops(s, 2 + 4 * flows), cpu_s,
         8e3 * (double)bytes / (double)end_ns);
  rw_simulation_close(s);
  return 0;
}
