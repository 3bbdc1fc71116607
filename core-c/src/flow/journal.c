#include "journal.h"

#include <stddef.h>
#include <stdlib.h>

/*
 * A note is a word of 64 bits. Where a packet goes on where the last one of its side ended, that is all:
 *
 *   bit 0      0
 *   bit 1      side
 *   2 to 13    slot: the flow's number, its lowest bits
 *   14 to 39   nanoseconds since the record before
 *   40 to 51   the timestamp's value, since the side's last
 *   52 to 63   its echo
 *
 * With bit 0 set, what stands from bit 40 on is which parts follow, in the order of enum part.
 */
enum { SLOT_BITS = 12, TIME_BITS = 26, STAMP_BITS = 12 };
enum { AT_SIDE = 1, AT_SLOT = 2, AT_TIME = 14, AT_VALUE = 40, AT_ECHO = 52, AT_PARTS = 40 };
enum part {
	PART_OTHER = 1, /* no packet of a flow: time and place are all; takes no room, as the next one does not */
	PART_COPY = 2,
	PART_FLOW = 4,    /* the slot was another flow's: number, 4 bytes; everything of it begins at 0 */
	PART_TIME = 8,    /* 8: not in the word */
	PART_STEP = 16,   /* 4: how far from the record before, when it is not as it was after its side's last */
	PART_PLACE = 32,  /* 12: file and offset */
	PART_COUNTS = 64, /* 8: payload, flags, window */
	PART_KINDS = 128, /* 8: what stands behind them */
	PART_SEQUENCE = 256, /* 4 */
	PART_ACK = 512,      /* 4 */
	PART_STAMPS = 1024,  /* 8 */
	PART_NUMBER = 2048,  /* 2: IPv4's identification */
	PART_SACKS = 4096,   /* 8 for each */
	PART_MAPPING = 8192  /* 11 */
};

/* Of MPTCP's mapping: bits of its first byte. */
enum { MAPPING_CAPABLE = 1, MAPPING_WIDE = 2, MAPPING_DATA_FIN = 4, MAPPING_PLACED = 8 /* in the subflow not at 0 */ };

#define COUNTS_AT offsetof(struct rw_packet, payload_bytes)
#define KINDS_AT offsetof(struct rw_packet, family)
_Static_assert(KINDS_AT == COUNTS_AT + 8 && offsetof(struct rw_packet, window_scale) == KINDS_AT + 8, "two words");

/* No note is longer. */
#define NOTE_MAX 128
#define CHUNK_FIRST ((size_t)1 << 14)
#define CHUNK_MOST ((size_t)1 << 20)

struct chunk {
	struct chunk *next;
	size_t room, used;
	uint8_t byte[];
};

/* The last packet of one side of a flow, and what is expected of the next. */
struct side {
	uint64_t counts, kinds;
	uint32_t sequence; /* after it */
	uint32_t ack, ack_step, ts_value, ts_echo;
	uint32_t step; /* bytes from its record to the next one in the file */
	uint16_t identification, identification_step;
};

struct memory {
	int64_t time_ns;
	uint64_t offset;
	uint32_t file;
	struct side *before; /* whose the last record was */
	struct side other;
	struct {
		uint32_t flow;
		struct side side[2];
	} slot[1 << SLOT_BITS];
};

struct rw_journal {
	struct chunk *first, *last;
	uint8_t *at, *end; /* of the last chunk: where the next note goes, and where none begins any more */
	uint64_t bytes, bytes_max, notes;
	struct memory memory;
};

struct rw_journal_reader {
	struct rw_journal *journal;
	struct chunk *chunk;
	const uint8_t *at, *end;
	uint64_t left, bytes_before;
	int releases;
	struct memory memory;
};

struct rw_journal *rw_journal_open(uint64_t bytes_max)
{
	struct rw_journal *j = calloc(1, sizeof *j);
	if (j) {
		j->bytes_max = bytes_max;
		j->memory.before = &j->memory.other;
	}
	return j;
}

void rw_journal_close(struct rw_journal *j)
{
	if (!j)
		return;
	while (j->first) {
		struct chunk *next = j->first->next;
		free(j->first);
		j->first = next;
	}
	free(j);
}

void rw_journal_narrow(struct rw_journal *j, uint64_t bytes) { j->bytes_max -= bytes < j->bytes_max ? bytes : j->bytes_max; }

static void close_chunk(struct rw_journal *j)
{
	if (j->last)
		j->last->used = (size_t)(j->at - j->last->byte);
}

static int make_room(struct rw_journal *j)
{
	size_t room = j->last ? j->last->room * 2 : CHUNK_FIRST;
	if (room > CHUNK_MOST)
		room = CHUNK_MOST;
	close_chunk(j);
	struct chunk *c = j->bytes + room <= j->bytes_max ? malloc(sizeof *c + room) : NULL;
	if (!c)
		return 1;
	c->next = NULL;
	c->room = room;
	c->used = 0;
	*(j->last ? &j->last->next : &j->first) = c;
	j->last = c;
	j->bytes += room;
	j->at = c->byte;
	j->end = c->byte + room - NOTE_MAX;
	return 0;
}

static inline uint64_t load64(const void *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return v;
}

static inline void put(uint8_t **at, const void *what, size_t n)
{
	memcpy(*at, what, n);
	*at += n;
}

static inline void get(const uint8_t **at, void *what, size_t n)
{
	memcpy(what, *at, n);
	*at += n;
}

/* Writer and reader forget alike. */
static void take_slot(struct memory *m, uint32_t slot, uint32_t flow)
{
	if (m->before == &m->slot[slot].side[0] || m->before == &m->slot[slot].side[1])
		m->before = &m->other;
	memset(&m->slot[slot], 0, sizeof m->slot[slot]);
	m->slot[slot].flow = flow;
}

/* Of all that MPTCP says, where data lies is what is asked for later (rw_coverage_add). */
static int has_mapping(const struct rw_mptcp *m) { return m->seen && m->dss_mapping && m->data_length; }

static void put_mapping(uint8_t **at, const struct rw_mptcp *m)
{
	uint8_t bits = (uint8_t)((m->seen & 1 << RW_MP_CAPABLE ? MAPPING_CAPABLE : 0) | (m->dss_wide ? MAPPING_WIDE : 0) |
				 (m->dss_data_fin ? MAPPING_DATA_FIN : 0) | (m->subflow_sequence ? MAPPING_PLACED : 0));
	put(at, &bits, 1);
	put(at, &m->data_length, 2);
	put(at, &m->data_sequence, 8);
}

static void get_mapping(const uint8_t **at, struct rw_mptcp *m)
{
	uint8_t bits;
	get(at, &bits, 1);
	get(at, &m->data_length, 2);
	get(at, &m->data_sequence, 8);
	m->seen = bits & MAPPING_CAPABLE ? 1 << RW_MP_CAPABLE : 1 << RW_MP_DSS;
	m->dss_mapping = 1;
	m->dss_wide = !!(bits & MAPPING_WIDE);
	m->dss_data_fin = !!(bits & MAPPING_DATA_FIN);
	m->subflow_sequence = !!(bits & MAPPING_PLACED);
}

/* Time and place of any record. Returns the parts that say it. */
static uint32_t put_place(struct memory *m, uint8_t **at, const struct rw_packet *p)
{
	uint64_t elapsed = (uint64_t)p->time_ns - (uint64_t)m->time_ns, step = p->offset - m->offset;
	uint32_t parts = 0;
	if (elapsed >> TIME_BITS) {
		parts = PART_TIME;
		put(at, &elapsed, 8);
	}
	if (p->file == m->file && step == m->before->step)
		return parts;
	if (p->file == m->file && step <= UINT32_MAX) {
		m->before->step = (uint32_t)step;
		put(at, &m->before->step, 4);
		return parts | PART_STEP;
	}
	put(at, &p->file, 4);
	put(at, &p->offset, 8);
	return parts | PART_PLACE;
}

static uint32_t put_packet(struct side *s, uint8_t **at, const struct rw_packet *p, uint64_t counts, uint64_t kinds)
{
	uint32_t parts = 0;
	uint16_t number = (uint16_t)(s->identification + s->identification_step);
	if (counts != s->counts) {
		parts |= PART_COUNTS;
		put(at, &counts, 8);
	}
	if (kinds != s->kinds) {
		parts |= PART_KINDS;
		put(at, &kinds, 8);
	}
	if (p->sequence != s->sequence) {
		parts |= PART_SEQUENCE;
		put(at, &p->sequence, 4);
	}
	if (p->ack != s->ack + s->ack_step) {
		parts |= PART_ACK;
		put(at, &p->ack, 4);
	}
	if (p->has_timestamps) {
		parts |= PART_STAMPS;
		put(at, &p->ts_value, 4);
		put(at, &p->ts_echo, 4);
	}
	if (p->identification != number) {
		parts |= PART_NUMBER;
		put(at, &p->identification, 2);
	}
	if (p->sack_count) {
		parts |= PART_SACKS;
		for (int i = 0; i < p->sack_count; i++) {
			put(at, &p->sack_start[i], 4);
			put(at, &p->sack_end[i], 4);
		}
	}
	if (has_mapping(&p->mptcp)) {
		parts |= PART_MAPPING;
		put_mapping(at, &p->mptcp);
	}
	return parts;
}

/* What its side will be compared with next. */
static inline void remember(struct side *s, const struct rw_packet *p, uint64_t counts, uint64_t kinds)
{
	s->counts = counts;
	s->kinds = kinds;
	s->sequence = p->sequence + p->payload_bytes;
	s->ack_step = p->ack - s->ack;
	s->ack = p->ack;
	if (p->has_timestamps) {
		s->ts_value = p->ts_value;
		s->ts_echo = p->ts_echo;
	}
	s->identification_step = (uint16_t)(p->identification - s->identification);
	s->identification = p->identification;
}

static __attribute__((noinline)) void write_long(struct rw_journal *j, uint8_t *start, const struct rw_noted *n)
{
	struct memory *m = &j->memory;
	const struct rw_packet *p = &n->packet;
	uint64_t counts = load64((const uint8_t *)p + COUNTS_AT), kinds = load64((const uint8_t *)p + KINDS_AT);
	uint32_t parts = 0, slot = n->flow & ((1 << SLOT_BITS) - 1);
	uint8_t *at = start + 8;
	struct side *s = &m->other;
	uint64_t word = 1;
	if (n->flow == RW_FLOW_NONE) {
		parts = PART_OTHER | put_place(m, &at, p);
	} else {
		parts = n->copy ? PART_COPY : 0;
		if (m->slot[slot].flow != n->flow) {
			take_slot(m, slot, n->flow);
			parts |= PART_FLOW;
			put(&at, &n->flow, 4);
		}
		s = &m->slot[slot].side[n->side];
		parts |= put_place(m, &at, p);
		parts |= put_packet(s, &at, p, counts, kinds);
		remember(s, p, counts, kinds);
		word |= (uint64_t)n->side << AT_SIDE | (uint64_t)slot << AT_SLOT;
	}
	if (!(parts & PART_TIME))
		word |= ((uint64_t)p->time_ns - (uint64_t)m->time_ns) << AT_TIME;
	word |= (uint64_t)parts << AT_PARTS;
	memcpy(start, &word, 8);
	m->time_ns = p->time_ns;
	m->offset = p->offset;
	m->file = p->file;
	m->before = s;
	j->at = at;
}

int rw_journal_write(struct rw_journal *j, const struct rw_noted *n)
{
	if (j->at >= j->end && make_room(j))
		return 1;
	j->notes++;
	struct memory *m = &j->memory;
	const struct rw_packet *p = &n->packet;
	uint8_t *start = j->at;
	uint32_t slot = n->flow & ((1 << SLOT_BITS) - 1);
	if (n->flow == RW_FLOW_NONE || m->slot[slot].flow != n->flow) {
		write_long(j, start, n);
		return 0;
	}
	struct side *s = &m->slot[slot].side[n->side];
	uint64_t counts = load64((const uint8_t *)p + COUNTS_AT), kinds = load64((const uint8_t *)p + KINDS_AT);
	uint64_t elapsed = (uint64_t)p->time_ns - (uint64_t)m->time_ns;
	uint32_t value = p->has_timestamps ? p->ts_value - s->ts_value : 0, echo = p->has_timestamps ? p->ts_echo - s->ts_echo : 0;
	uint16_t number = (uint16_t)(s->identification + s->identification_step);
	uint64_t unexpected = (counts ^ s->counts) | (kinds ^ s->kinds) | (p->sequence ^ s->sequence) |
			      (p->ack ^ (s->ack + s->ack_step)) | (uint16_t)(p->identification ^ number) |
			      ((p->offset - m->offset) ^ m->before->step) | (p->file ^ m->file) | elapsed >> TIME_BITS |
			      (value | echo) >> STAMP_BITS | p->sack_count | p->mptcp.seen | n->copy;
	if (unexpected) {
		write_long(j, start, n);
		return 0;
	}
	uint64_t word = (uint64_t)n->side << AT_SIDE | (uint64_t)slot << AT_SLOT | elapsed << AT_TIME | (uint64_t)value << AT_VALUE |
			(uint64_t)echo << AT_ECHO;
	memcpy(start, &word, 8);
	j->at += 8;
	m->time_ns = p->time_ns;
	m->offset = p->offset;
	m->before = s;
	remember(s, p, counts, kinds);
	return 0;
}

struct rw_journal_reader *rw_journal_read(struct rw_journal *j, int releases)
{
	struct rw_journal_reader *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->journal = j;
	r->releases = releases;
	r->left = j->notes;
	r->memory.before = &r->memory.other;
	r->chunk = j->first;
	close_chunk(j);
	if (r->chunk) {
		r->at = r->chunk->byte;
		r->end = r->at + r->chunk->used;
	}
	return r;
}

void rw_journal_reader_close(struct rw_journal_reader *r) { free(r); }

static void next_chunk(struct rw_journal_reader *r)
{
	struct chunk *passed = r->chunk;
	r->bytes_before += passed->room;
	r->chunk = passed->next;
	r->at = r->chunk->byte;
	r->end = r->at + r->chunk->used;
	if (r->releases) {
		r->journal->first = r->chunk;
		free(passed);
	}
}

uint32_t rw_journal_share_q16(const struct rw_journal_reader *r)
{
	if (r->left == 0)
		return 1 << 16;
	uint64_t read = r->bytes_before + (uint64_t)(r->at - r->chunk->byte);
	return (uint32_t)((read << 16) / (r->journal->bytes + 1));
}

/* The rest of a long note. */
static __attribute__((noinline)) void read_long(struct rw_journal_reader *r, uint64_t word, struct rw_noted *n)
{
	struct memory *m = &r->memory;
	struct rw_packet *p = &n->packet;
	uint32_t parts = (uint32_t)(word >> AT_PARTS), slot = word >> AT_SLOT & ((1 << SLOT_BITS) - 1);
	uint64_t elapsed = word >> AT_TIME & ((1 << TIME_BITS) - 1);
	const uint8_t *at = r->at;
	struct side *s = &m->other;
	n->flow = RW_FLOW_NONE;
	if (!(parts & PART_OTHER)) {
		if (parts & PART_FLOW) {
			uint32_t flow;
			get(&at, &flow, 4);
			take_slot(m, slot, flow);
		}
		n->flow = m->slot[slot].flow;
		n->side = word >> AT_SIDE & 1;
		n->copy = !!(parts & PART_COPY);
		s = &m->slot[slot].side[n->side];
	}
	if (parts & PART_TIME)
		get(&at, &elapsed, 8);
	if (parts & PART_STEP)
		get(&at, &m->before->step, 4);
	if (parts & PART_PLACE) {
		get(&at, &m->file, 4);
		get(&at, &m->offset, 8);
	} else {
		m->offset += m->before->step;
	}
	m->time_ns = (int64_t)((uint64_t)m->time_ns + elapsed);
	m->before = s;
	p->time_ns = m->time_ns;
	p->offset = m->offset;
	p->file = m->file;
	if (n->flow != RW_FLOW_NONE) {
		uint64_t counts = s->counts, kinds = s->kinds;
		if (parts & PART_COUNTS)
			get(&at, &counts, 8);
		if (parts & PART_KINDS)
			get(&at, &kinds, 8);
		memcpy((uint8_t *)p + COUNTS_AT, &counts, 8);
		memcpy((uint8_t *)p + KINDS_AT, &kinds, 8);
		p->sequence = s->sequence;
		if (parts & PART_SEQUENCE)
			get(&at, &p->sequence, 4);
		p->ack = s->ack + s->ack_step;
		if (parts & PART_ACK)
			get(&at, &p->ack, 4);
		if (parts & PART_STAMPS) {
			get(&at, &p->ts_value, 4);
			get(&at, &p->ts_echo, 4);
		}
		p->identification = (uint16_t)(s->identification + s->identification_step);
		if (parts & PART_NUMBER)
			get(&at, &p->identification, 2);
		if (parts & PART_SACKS)
			for (int i = 0; i < p->sack_count; i++) {
				get(&at, &p->sack_start[i], 4);
				get(&at, &p->sack_end[i], 4);
			}
		p->overtaken = 0;
		p->mptcp.seen = 0;
		if (parts & PART_MAPPING)
			get_mapping(&at, &p->mptcp);
		remember(s, p, counts, kinds);
	}
	r->at = at;
}

int rw_journal_next(struct rw_journal_reader *r, struct rw_noted *n)
{
	if (r->left == 0)
		return 0;
	r->left--;
	if (r->at == r->end)
		next_chunk(r);
	uint64_t word = load64(r->at);
	r->at += 8;
	if (word & 1) {
		read_long(r, word, n);
		return 1;
	}
	struct memory *m = &r->memory;
	struct rw_packet *p = &n->packet;
	uint32_t slot = word >> AT_SLOT & ((1 << SLOT_BITS) - 1);
	struct side *s = &m->slot[slot].side[word >> AT_SIDE & 1];
	n->flow = m->slot[slot].flow;
	n->side = word >> AT_SIDE & 1;
	n->copy = 0;
	p->time_ns = m->time_ns += (int64_t)(word >> AT_TIME & ((1 << TIME_BITS) - 1));
	p->offset = m->offset += m->before->step;
	p->file = m->file;
	m->before = s;
	memcpy((uint8_t *)p + COUNTS_AT, &s->counts, 8);
	memcpy((uint8_t *)p + KINDS_AT, &s->kinds, 8);
	p->sequence = s->sequence;
	s->sequence += p->payload_bytes;
	p->ack = s->ack += s->ack_step;
	p->identification = s->identification = (uint16_t)(s->identification + s->identification_step);
	p->ts_value = s->ts_value += (uint32_t)(word >> AT_VALUE & ((1 << STAMP_BITS) - 1));
	p->ts_echo = s->ts_echo += (uint32_t)(word >> AT_ECHO);
	p->overtaken = 0;
	p->mptcp.seen = 0;
	return 1;
}
