#include "journal.h"
#include "rw_ways.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/*
 * A note is a word of 64 bits. For a packet that continues where the last one of its side ended, the word is the whole note:
 *
 *   bit 0      0
 *   bit 1      side
 *   2 to 13    slot, its lowest bits: there is one for each flow, until there are SLOTS_MOST
 *   14 to 38   nanoseconds since the record before
 *   39         a mapping stands behind the word (put_mapping)
 *   40 to 51   the timestamp's value, since the side's last
 *   52 to 63   its echo
 *
 * With bit 0 set, the bits from 40 on tell which parts follow, in the order of enum part (both forms of stamps in one place).
 *
 * Once there are more than SLOTS_NEAR flows, two bytes with the slot's other bits stand behind the word of each packet's note, but of
 * those with PART_FLOW.
 */
enum { SLOT_BITS = 12, TIME_BITS = 25, STAMP_BITS = 12 };
enum { SLOTS_FIRST = 64, SLOTS_NEAR = 1 << SLOT_BITS, SLOTS_MOST = 1 << 17 };
enum { AT_SIDE = 1, AT_TIME = 14, AT_MAPPED = 39, AT_VALUE = 40, AT_ECHO = 52, AT_PARTS = 40 };
enum part {
	PART_OTHER = 1, /* no packet of a flow, only time and place; this part and the next one take no bytes */
	PART_COPY = 2,
	PART_FLOW = 4, /* 4 bytes, the flow's number: the slot was free or another flow's, and its fields begin at 0 */
	PART_TIME = 8, /* 8 bytes; the time does not fit into the word */
	PART_STEP = 16, /* 4 bytes: offset from the record before, if it is not as after the last record of its kind */
	PART_PLACE = 32, /* 12 bytes: file and offset */
	PART_COUNTS = 64, /* 8 bytes: payload, flags, window */
	PART_KINDS = 128, /* 8: what stands behind them */
	PART_SEQUENCE = 256, /* 4 */
	PART_ACK = 512, /* 4 */
	PART_STAMPS = 1024, /* 8 */
	PART_NUMBER = 2048, /* 2 bytes: IPv4's identification */
	PART_SACKS = 4096, /* 1: a bit for each edge that differs from the side's last SACKs; 4 for each of these */
	PART_MAPPING = 8192, /* 1, or 11 */
	PART_STAMPS_NEAR = 16384 /* 4: instead of PART_STAMPS, 2 for each one's difference from the side's last */
};

/* Bits of the first byte of an MPTCP mapping. */
enum {
	MAPPING_CAPABLE = 1,
	MAPPING_WIDE = 2,
	MAPPING_DATA_FIN = 4,
	MAPPING_PLACED = 8, /* its place in the subflow is not 0 */
	/* This byte is all: the other bits and the length are those of the side's last mapping, */
	MAPPING_REPEATED = 16, /* the sequence number too */
	MAPPING_FOLLOWS = 32 /* the sequence number is the one behind it */
};

/* The predictable fields of a packet, with the layout of struct rw_packet. */
struct foretold {
	uint32_t sequence, ack;
	uint64_t counts; /* payload, flags, window */
	uint64_t kinds; /* what stands behind them */
};
#define FORETOLD_AT offsetof(struct rw_packet, sequence)
_Static_assert(offsetof(struct rw_packet, payload_bytes) == FORETOLD_AT + offsetof(struct foretold, counts) &&
		   offsetof(struct rw_packet, family) == FORETOLD_AT + offsetof(struct foretold, kinds) &&
		   offsetof(struct rw_packet, window_scale) == FORETOLD_AT + sizeof(struct foretold),
	       "the same places");

/* The longest note. */
#define NOTE_MAX 128
#define CHUNK_FIRST ((size_t)1 << 14)
/* Small enough that the allocator keeps a chunk that was freed: the second pass needs its memory for flows. */
#define CHUNK_MOST ((size_t)1 << 16)

struct chunk {
	struct chunk *next;
	size_t room, used;
	uint8_t byte[];
};

/* The prediction of the next packet of one side of a flow. */
struct side {
	struct foretold next;
	uint32_t ts_value, ts_echo; /* of its last packet */
	uint32_t ack_step; /* difference from one ACK number to the next */
	uint16_t identification, identification_step;
	uint32_t flow;
	uint32_t kind; /* of its last record */
};

/* The parts of a mapping that later passes need. */
struct mapping {
	uint64_t sequence;
	uint16_t length;
	uint8_t bits;
};

/* Those of packets, and of other records. */
enum { RECORD_KINDS = 33, RECORD_OTHER = 32 };

/* Writer and reader keep the same, note by note. */
struct memory {
	struct side *side; /* two for each slot */
	uint32_t slots; /* a power of two */
	uint8_t wide; /* there are more than SLOTS_NEAR */
	/* The last ones of a side, and of others some slots further, which only makes notes longer. */
	struct rw_range sack[2 * SLOTS_NEAR][RW_SACK_MAX];
	struct mapping mapping[2 * SLOTS_NEAR];
	int64_t time_ns;
	uint64_t offset;
	uint32_t file;
	uint32_t before; /* the kind of the last record (kind_of) */
	uint32_t step[RECORD_KINDS]; /* bytes from the last record of each kind to the next one in the file */
};

struct rw_journal {
	struct chunk *first, *last;
	uint8_t *at, *end; /* in the last chunk: the place of the next note, and the place from which on none begins */
	uint64_t bytes, notes;
	_Atomic uint64_t *left, own_left; /* bytes that may still be taken */
	uint64_t record; /* of the last note, if notes are numbered */
	struct memory memory;
};

struct rw_journal_reader {
	struct rw_journal *journal;
	struct chunk *chunk;
	const uint8_t *at, *end;
	uint64_t left, bytes_before, record;
	int releases;
	struct memory memory;
};

/* Makes so many slots, all free, beside those that there are. 0, or 1: out of memory. */
static int make_slots(struct memory *m, uint32_t slots)
{
	struct side *grown = realloc(m->side, 2 * (size_t)slots * sizeof *grown);
	if (!grown)
		return 1;
	m->side = grown;
	memset(&m->side[2 * m->slots], 0, 2 * (size_t)(slots - m->slots) * sizeof *grown);
	m->slots = slots;
	return 0;
}

static struct rw_journal *open_journal(void)
{
	struct rw_journal *j = calloc(1, sizeof *j);
	if (j && make_slots(&j->memory, SLOTS_FIRST)) {
		free(j);
		return NULL;
	}
	return j;
}

struct rw_journal *rw_journal_open(uint64_t bytes_max)
{
	struct rw_journal *j = open_journal();
	if (j) {
		j->own_left = bytes_max;
		j->left = &j->own_left;
	}
	return j;
}

struct rw_journal *rw_journal_open_numbered(_Atomic uint64_t *left)
{
	struct rw_journal *j = open_journal();
	if (j)
		j->left = left;
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
	free(j->memory.side);
	free(j);
}

static void close_chunk(struct rw_journal *j)
{
	if (j->last)
		j->last->used = (size_t)(j->at - j->last->byte);
}

/* 0: there are not so many left. */
static int take(_Atomic uint64_t *left, uint64_t bytes)
{
	uint64_t now = *left;
	while (now >= bytes)
		if (atomic_compare_exchange_weak(left, &now, now - bytes))
			return 1;
	return 0;
}

static RW_ASIDE int make_room(struct rw_journal *j)
{
	size_t room = j->last ? j->last->room * 2 : CHUNK_FIRST;
	if (room > CHUNK_MOST)
		room = CHUNK_MOST;
	close_chunk(j);
	struct chunk *c = take(j->left, room) ? malloc(sizeof *c + room) : NULL;
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

static inline uint64_t numbers_of(const struct rw_packet *p)
{
	return rw_fields_at(p, offsetof(struct rw_packet, sequence));
}
static inline uint64_t counts_of(const struct rw_packet *p)
{
	return rw_fields_at(p, offsetof(struct rw_packet, payload_bytes));
}
static inline uint64_t kinds_of(const struct rw_packet *p)
{
	return rw_fields_at(p, offsetof(struct rw_packet, family));
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

/* The slot of a flow, as far as there are slots. */
static inline uint32_t slot_of(uint32_t flow) { return flow & (SLOTS_MOST - 1); }

static inline uint32_t last_of(const struct memory *m, const struct side *s)
{
	return (uint32_t)(s - m->side) & (2 * SLOTS_NEAR - 1);
}

/* Writer and reader reset a slot in the same way. */
static void take_slot(struct memory *m, uint32_t flow)
{
	struct side *pair = &m->side[2 * slot_of(flow)];
	memset(pair, 0, 2 * sizeof *pair);
	pair[0].flow = pair[1].flow = flow;
	m->wide |= flow >= SLOTS_NEAR;
}

/* Of the MPTCP options, later passes need only the mapping (rw_coverage_add). */
static int has_mapping(const struct rw_mptcp *m) { return m->seen && m->dss_mapping && m->data_length; }

static RW_ASIDE void put_mapping(struct mapping *last, uint8_t **at, const struct rw_mptcp *m)
{
	uint8_t bits =
	    (uint8_t)((m->seen & 1 << RW_MP_CAPABLE ? MAPPING_CAPABLE : 0) | (m->dss_wide ? MAPPING_WIDE : 0) |
		      (m->dss_data_fin ? MAPPING_DATA_FIN : 0) | (m->subflow_sequence ? MAPPING_PLACED : 0));
	uint8_t told = bits;
	if (bits == last->bits && m->data_length == last->length) {
		if (m->data_sequence == last->sequence)
			told |= MAPPING_REPEATED;
		else if (m->data_sequence == last->sequence + last->length)
			told |= MAPPING_FOLLOWS;
	}
	put(at, &told, 1);
	if (told == bits) {
		put(at, &m->data_length, 2);
		put(at, &m->data_sequence, 8);
	}
	*last = (struct mapping){m->data_sequence, m->data_length, bits};
}

static RW_ASIDE void get_mapping(struct mapping *last, const uint8_t **at, struct rw_mptcp *m)
{
	uint8_t told;
	get(at, &told, 1);
	if (told & MAPPING_FOLLOWS) {
		last->sequence += last->length;
	} else if (!(told & MAPPING_REPEATED)) {
		last->bits = told;
		get(at, &last->length, 2);
		get(at, &last->sequence, 8);
	}
	m->data_length = last->length;
	m->data_sequence = last->sequence;
	m->seen = last->bits & MAPPING_CAPABLE ? 1 << RW_MP_CAPABLE : 1 << RW_MP_DSS;
	m->dss_mapping = 1;
	m->dss_wide = !!(last->bits & MAPPING_WIDE);
	m->dss_data_fin = !!(last->bits & MAPPING_DATA_FIN);
	m->subflow_sequence = !!(last->bits & MAPPING_PLACED);
}

_Static_assert(2 * RW_SACK_MAX <= 8, "a byte has a bit for each edge");

/* From one ACK to the next, mostly the end of a single block changes. */
static void put_sacks(struct rw_range *last, uint8_t **at, const struct rw_packet *p)
{
	uint8_t *changed = (*at)++;
	*changed = 0;
	for (int i = 0; i < p->sack_count; i++) {
		if (p->sack[i].start != last[i].start) {
			*changed |= (uint8_t)(1 << 2 * i);
			put(at, &p->sack[i].start, 4);
		}
		if (p->sack[i].end != last[i].end) {
			*changed |= (uint8_t)(2 << 2 * i);
			put(at, &p->sack[i].end, 4);
		}
		last[i] = p->sack[i];
	}
}

static void get_sacks(struct rw_range *last, const uint8_t **at, struct rw_packet *p)
{
	uint8_t changed;
	get(at, &changed, 1);
	for (int i = 0; i < p->sack_count; i++) {
		if (changed & 1 << 2 * i)
			get(at, &last[i].start, 4);
		if (changed & 2 << 2 * i)
			get(at, &last[i].end, 4);
		p->sack[i] = last[i];
	}
}

/* Returns the part that it wrote. */
static uint32_t put_stamps(const struct side *s, uint8_t **at, const struct rw_packet *p)
{
	uint32_t value = p->ts_value - s->ts_value, echo = p->ts_echo - s->ts_echo;
	if ((value | echo) >> 16) {
		put(at, &p->ts_value, 4);
		put(at, &p->ts_echo, 4);
		return PART_STAMPS;
	}
	uint32_t both = value | echo << 16;
	put(at, &both, 4);
	return PART_STAMPS_NEAR;
}

/* Writes time and place of any record. Returns the parts that it wrote. */
static uint32_t put_place(struct memory *m, uint8_t **at, const struct rw_packet *p)
{
	uint64_t elapsed = (uint64_t)p->time_ns - (uint64_t)m->time_ns, step = p->offset - m->offset;
	uint32_t parts = 0;
	if (elapsed >> TIME_BITS) {
		parts = PART_TIME;
		put(at, &elapsed, 8);
	}
	if (p->file == m->file && step == m->step[m->before])
		return parts;
	if (p->file == m->file && step <= UINT32_MAX) {
		m->step[m->before] = (uint32_t)step;
		put(at, &m->step[m->before], 4);
		return parts | PART_STEP;
	}
	put(at, &p->file, 4);
	put(at, &p->offset, 8);
	return parts | PART_PLACE;
}

static uint32_t put_packet(struct memory *m, struct side *s, uint8_t **at, const struct rw_packet *p,
			   const struct foretold *f)
{
	uint32_t parts = 0;
	if (f->counts != s->next.counts) {
		parts |= PART_COUNTS;
		put(at, &f->counts, 8);
	}
	if (f->kinds != s->next.kinds) {
		parts |= PART_KINDS;
		put(at, &f->kinds, 8);
	}
	if (f->sequence != s->next.sequence) {
		parts |= PART_SEQUENCE;
		put(at, &f->sequence, 4);
	}
	if (f->ack != s->next.ack) {
		parts |= PART_ACK;
		put(at, &f->ack, 4);
	}
	if (p->has_timestamps)
		parts |= put_stamps(s, at, p);
	if (p->identification != s->identification) {
		parts |= PART_NUMBER;
		put(at, &p->identification, 2);
	}
	if (p->sack_count) {
		parts |= PART_SACKS;
		put_sacks(m->sack[last_of(m, s)], at, p);
	}
	if (has_mapping(&p->mptcp)) {
		parts |= PART_MAPPING;
		put_mapping(&m->mapping[last_of(m, s)], at, &p->mptcp);
	}
	return parts;
}

/* Records of a kind mostly have one length: with the same TCP header, and with data or without. */
static inline uint32_t kind_of(uint32_t tcp_header_bytes, uint32_t payload_bytes)
{
	return tcp_header_bytes / 4 % 16 | (payload_bytes ? 16 : 0);
}

/* Predicts the side's next packet. */
static void expect_after(struct side *s, const struct rw_packet *p, const struct foretold *f)
{
	uint32_t ack = s->next.ack - s->ack_step;
	uint16_t identification = (uint16_t)(s->identification - s->identification_step);
	s->next = *f;
	s->next.sequence += p->payload_bytes;
	s->ack_step = p->ack - ack;
	s->next.ack += s->ack_step;
	s->kind = kind_of(p->tcp_header_bytes, p->payload_bytes);
	s->ts_value = p->ts_value;
	s->ts_echo = p->ts_echo;
	s->identification_step = (uint16_t)(p->identification - identification);
	s->identification = (uint16_t)(p->identification + s->identification_step);
}

/* The same after a packet that was as predicted: its steps are those of the packet before. */
static inline void expect_next(struct side *s, uint32_t payload_bytes, uint32_t ts_value, uint32_t ts_echo)
{
	s->next.sequence += payload_bytes;
	s->next.ack += s->ack_step;
	s->ts_value = ts_value;
	s->ts_echo = ts_echo;
	s->identification = (uint16_t)(s->identification + s->identification_step);
}

/* The rest of a slot, behind the word. which: of a side. */
static inline void put_slot(const struct memory *m, uint8_t **at, uint64_t which)
{
	uint16_t rest = (uint16_t)(which >> (SLOT_BITS + 1));
	if (m->wide)
		put(at, &rest, sizeof rest);
}

static inline uint64_t which_of(const struct memory *m, const uint8_t **at, uint64_t word)
{
	uint64_t which = word >> AT_SIDE & (2 * SLOTS_NEAR - 1);
	uint16_t rest = 0;
	if (m->wide)
		get(at, &rest, sizeof rest);
	return which | (uint64_t)rest << (SLOT_BITS + 1);
}

static RW_ASIDE void write_long(struct rw_journal *j, const struct rw_noted *n)
{
	struct memory *m = &j->memory;
	const struct rw_packet *p = &n->packet;
	uint32_t parts = 0;
	uint8_t *start = j->at, *at = start + 8;
	uint32_t kind = RECORD_OTHER;
	uint64_t word = 1;
	if (n->flow == RW_FLOW_NONE) {
		parts = PART_OTHER | put_place(m, &at, p);
	} else {
		struct foretold f = {p->sequence, p->ack, counts_of(p), kinds_of(p)};
		uint64_t which = 2ull * slot_of(n->flow) + n->side;
		parts = n->copy ? PART_COPY : 0;
		struct side *s = &m->side[which];
		if (s->flow != n->flow) {
			take_slot(m, n->flow);
			parts |= PART_FLOW;
			put(&at, &n->flow, 4);
		} else {
			put_slot(m, &at, which);
		}
		parts |= put_place(m, &at, p);
		parts |= put_packet(m, s, &at, p, &f);
		expect_after(s, p, &f);
		kind = s->kind;
		word |= (which & (2 * SLOTS_NEAR - 1)) << AT_SIDE;
	}
	if (!(parts & PART_TIME))
		word |= ((uint64_t)p->time_ns - (uint64_t)m->time_ns) << AT_TIME;
	word |= (uint64_t)parts << AT_PARTS;
	memcpy(start, &word, 8);
	m->time_ns = p->time_ns;
	m->offset = p->offset;
	m->file = p->file;
	m->before = kind;
	j->at = at;
}

/* There is room for it. 0, or 1: out of memory. */
static inline int write_note(struct rw_journal *j, const struct rw_noted *n)
{
	struct memory *m = &j->memory;
	const struct rw_packet *p = &n->packet;
	if (n->flow == RW_FLOW_NONE) {
		j->notes++;
		write_long(j, n);
		return 0;
	}
	while (slot_of(n->flow) >= m->slots)
		if (make_slots(m, 2 * m->slots))
			return 1;
	j->notes++;
	uint64_t which = 2ull * slot_of(n->flow) + n->side;
	struct side *s = &m->side[which];
	uint64_t elapsed = (uint64_t)p->time_ns - (uint64_t)m->time_ns;
	uint32_t value = p->ts_value - s->ts_value, echo = p->ts_echo - s->ts_echo;
	uint64_t unexpected = (numbers_of(p) ^ rw_fields_at(&s->next, offsetof(struct foretold, sequence))) |
			      (counts_of(p) ^ s->next.counts) | (kinds_of(p) ^ s->next.kinds) |
			      (p->identification ^ s->identification) | (n->flow ^ s->flow) |
			      ((p->offset - m->offset) ^ m->step[m->before]) | (p->file ^ m->file) |
			      elapsed >> TIME_BITS | (value | echo) >> STAMP_BITS | n->copy | p->sack_count;
	if (!RW_SHORT_WAY(!unexpected)) {
		write_long(j, n);
		return 0;
	}
	uint64_t mapped = (uint64_t)has_mapping(&p->mptcp);
	uint64_t word = (which & (2 * SLOTS_NEAR - 1)) << AT_SIDE | elapsed << AT_TIME | mapped << AT_MAPPED |
			(uint64_t)value << AT_VALUE | (uint64_t)echo << AT_ECHO;
	memcpy(j->at, &word, 8);
	j->at += 8;
	put_slot(m, &j->at, which);
	if (mapped)
		put_mapping(&m->mapping[last_of(m, s)], &j->at, &p->mptcp);
	m->time_ns = p->time_ns;
	m->offset = p->offset;
	m->before = s->kind;
	expect_next(s, p->payload_bytes, p->ts_value, p->ts_echo);
	return 0;
}

int rw_journal_write(struct rw_journal *j, const struct rw_noted *n)
{
	return j->at >= j->end && make_room(j) ? 1 : write_note(j, n);
}

/* Before a note with a number: how many records lie between it and the note before. */
enum { MANY_BETWEEN = 255 };

int rw_journal_write_numbered(struct rw_journal *j, struct rw_noted *n)
{
	if (j->at >= j->end && make_room(j))
		return 1;
	uint64_t between = n->record - j->record - 1;
	j->record = n->record;
	*j->at++ = between < MANY_BETWEEN ? (uint8_t)between : MANY_BETWEEN;
	if (between >= MANY_BETWEEN)
		put(&j->at, &between, sizeof between);
	n->packet.offset = 0;
	return write_note(j, n);
}

struct rw_journal_reader *rw_journal_read(struct rw_journal *j, int releases)
{
	struct rw_journal_reader *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	r->journal = j;
	r->releases = releases;
	r->left = j->notes;
	close_chunk(j);
	if (j->memory.side) { /* nothing is written any more */
		r->memory.side = j->memory.side;
		r->memory.slots = j->memory.slots;
		j->memory.side = NULL;
		memset(r->memory.side, 0, 2 * (size_t)r->memory.slots * sizeof *r->memory.side);
	} else if (make_slots(&r->memory, j->memory.slots)) {
		free(r);
		return NULL;
	}
	r->chunk = j->first;
	if (r->chunk) {
		r->at = r->chunk->byte;
		r->end = r->at + r->chunk->used;
	}
	return r;
}

void rw_journal_reader_close(struct rw_journal_reader *r)
{
	if (r)
		free(r->memory.side);
	free(r);
}

static RW_ASIDE void next_chunk(struct rw_journal_reader *r)
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
static RW_ASIDE void read_long(struct rw_journal_reader *r, uint64_t word, struct rw_noted *n)
{
	struct memory *m = &r->memory;
	struct rw_packet *p = &n->packet;
	uint32_t parts = (uint32_t)(word >> AT_PARTS);
	uint64_t elapsed = word >> AT_TIME & ((1 << TIME_BITS) - 1);
	const uint8_t *at = r->at;
	struct side *s = NULL;
	n->flow = RW_FLOW_NONE;
	n->copy = 0;
	if (!(parts & PART_OTHER)) {
		n->side = word >> AT_SIDE & 1;
		n->copy = !!(parts & PART_COPY);
		if (parts & PART_FLOW) {
			get(&at, &n->flow, 4);
			take_slot(m, n->flow);
			s = &m->side[2 * slot_of(n->flow) + n->side];
		} else {
			s = &m->side[which_of(m, &at, word)];
			n->flow = s->flow;
		}
	}
	if (parts & PART_TIME)
		get(&at, &elapsed, 8);
	if (parts & PART_STEP)
		get(&at, &m->step[m->before], 4);
	if (parts & PART_PLACE) {
		get(&at, &m->file, 4);
		get(&at, &m->offset, 8);
	} else {
		m->offset += m->step[m->before];
	}
	m->time_ns = (int64_t)((uint64_t)m->time_ns + elapsed);
	m->before = RECORD_OTHER;
	p->time_ns = m->time_ns;
	p->offset = m->offset;
	p->file = m->file;
	if (n->flow != RW_FLOW_NONE) {
		struct foretold f = s->next;
		if (parts & PART_COUNTS)
			get(&at, &f.counts, 8);
		if (parts & PART_KINDS)
			get(&at, &f.kinds, 8);
		if (parts & PART_SEQUENCE)
			get(&at, &f.sequence, 4);
		if (parts & PART_ACK)
			get(&at, &f.ack, 4);
		memcpy((uint8_t *)p + FORETOLD_AT, &f, sizeof f);
		p->ts_value = p->ts_echo = 0;
		if (parts & PART_STAMPS) {
			get(&at, &p->ts_value, 4);
			get(&at, &p->ts_echo, 4);
		} else if (parts & PART_STAMPS_NEAR) {
			uint32_t both;
			get(&at, &both, 4);
			p->ts_value = s->ts_value + (both & 0xffff);
			p->ts_echo = s->ts_echo + (both >> 16);
		}
		p->identification = s->identification;
		if (parts & PART_NUMBER)
			get(&at, &p->identification, 2);
		if (parts & PART_SACKS)
			get_sacks(m->sack[last_of(m, s)], &at, p);
		p->overtaken = 0;
		p->mptcp.seen = 0;
		if (parts & PART_MAPPING)
			get_mapping(&m->mapping[last_of(m, s)], &at, &p->mptcp);
		expect_after(s, p, &f);
		m->before = s->kind;
	}
	r->at = at;
}

/* 0: there are no more notes. */
static inline int find_note(struct rw_journal_reader *r)
{
	if (r->left == 0)
		return 0;
	r->left--;
	if (r->at == r->end)
		next_chunk(r);
	return 1;
}

/* Returns 1. */
static inline int read_note(struct rw_journal_reader *r, struct rw_noted *n)
{
	uint64_t word;
	memcpy(&word, r->at, 8);
	r->at += 8;
	if (word & 1) {
		read_long(r, word, n);
		return 1;
	}
	struct memory *m = &r->memory;
	struct rw_packet *p = &n->packet;
	struct side *s = &m->side[which_of(m, &r->at, word)];
	n->flow = s->flow;
	n->side = word >> AT_SIDE & 1;
	n->copy = 0;
	p->time_ns = m->time_ns += (int64_t)(word >> AT_TIME & ((1 << TIME_BITS) - 1));
	p->offset = m->offset += m->step[m->before];
	p->file = m->file;
	memcpy((uint8_t *)p + FORETOLD_AT, &s->next, sizeof s->next);
	m->before = s->kind;
	p->identification = s->identification;
	p->ts_value = s->ts_value + (uint32_t)(word >> AT_VALUE & ((1 << STAMP_BITS) - 1));
	p->ts_echo = s->ts_echo + (uint32_t)(word >> AT_ECHO);
	p->overtaken = 0;
	p->mptcp.seen = 0;
	if (word >> AT_MAPPED & 1)
		get_mapping(&m->mapping[last_of(m, s)], &r->at, &p->mptcp);
	expect_next(s, p->payload_bytes, p->ts_value, p->ts_echo);
	return 1;
}

int rw_journal_next(struct rw_journal_reader *r, struct rw_noted *n) { return find_note(r) && read_note(r, n); }

int rw_journal_next_numbered(struct rw_journal_reader *r, struct rw_noted *n)
{
	if (!find_note(r))
		return 0;
	uint64_t between = *r->at++;
	if (between == MANY_BETWEEN)
		get(&r->at, &between, sizeof between);
	n->record = r->record += between + 1;
	return read_note(r, n);
}
