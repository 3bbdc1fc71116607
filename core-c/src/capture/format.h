/* Shared by the capture formats; inside this folder only. */
#ifndef RW_FORMAT_H
#define RW_FORMAT_H

#include "capture.h"
#include "input.h"

/* libpcap's bound on a record: a larger one counts as a corrupt header. */
#define RW_RECORD_MAX 262144

struct rw_interface {
	uint32_t link_type, snap_bytes;
	int64_t offset_s;
	uint64_t units_per_s; /* 0: above what 64 bits hold, timestamps unusable */
	uint64_t dropped, dropped_between; /* reported in all; reported by options of packets */
};

struct rw_capture {
	struct rw_input in;
	struct rw_oddity_counts *oddities;
	int (*next)(struct rw_capture *c, struct rw_record *record, rw_error *error);
	struct rw_interface *interfaces; /* of the section; one for pcap and snoop */
	uint32_t interface_count, interface_room, interfaces_before;
	uint32_t file;
	uint64_t records; /* handed out so far */
	int64_t last_time_ns;
	uint32_t nanoseconds_per_unit; /* pcap */
	uint8_t swapped, lengths_reversed, ended;
	uint8_t record_header_bytes;
	uint8_t plain; /* pcap as tcpdump writes it on most hosts: little-endian, headers of 16 bytes, version 2.4 */
	struct rw_interface_sort *sort; /* null: records come in the file's order */
};

int rw_pcap_recognises(const uint8_t *p);
enum rw_status rw_pcap_start(struct rw_capture *c, rw_error *error);
int rw_pcap_next(struct rw_capture *c, struct rw_record *record, rw_error *error);

int rw_pcapng_recognises(const uint8_t *p);
enum rw_status rw_pcapng_start(struct rw_capture *c, rw_error *error);
int rw_pcapng_next(struct rw_capture *c, struct rw_record *record, rw_error *error);

/* p: eight bytes. */
int rw_snoop_recognises(const uint8_t *p);
enum rw_status rw_snoop_start(struct rw_capture *c, rw_error *error);
int rw_snoop_next(struct rw_capture *c, struct rw_record *record, rw_error *error);
/* The datalink type (RFC 1761) of a link type that the reader gives. */
uint32_t rw_snoop_datalink(uint32_t link_type);

/*
 * Puts the records of sections with several interfaces in the order of their times (interfaces.c); at most held_max records wait
 * for one another. 0, or 1: out of memory. Call it before the first record.
 */
int rw_interfaces_sort(struct rw_capture *c, uint32_t held_max);
void rw_interfaces_close(struct rw_interface_sort *sort);
int rw_interfaces_next(struct rw_capture *c, struct rw_record *record, rw_error *error);
struct rw_moved rw_interfaces_moved(const struct rw_interface_sort *sort);

/* Ends the capture here and counts `why`. Returns 0. */
int rw_capture_cut(struct rw_capture *c, enum rw_oddity why);

#endif
