#include "check.h"
#include "packets.h"
#include "rewindow.h"

#include <dirent.h>
#include <fcntl.h>

static const char *const NAMES[] = {"newreno", "uncoupled", "css", "tccc", "cubic"};
static const char *const WEIGHTED[] = {"join_weighted=on", "mode=kernel"};

struct totals {
	uint64_t rows, marks, tcp_packets, unseen_data_record;
	uint32_t connections;
	rw_status status;
};

/* Replays a file with every controller; everything that comes out is read. */
static struct totals replay(const struct file *f)
{
	struct totals t = {0};
	rw_choice choices[5] = {{0}};
	for (int i = 0; i < 5; i++)
		choices[i].name = NAMES[i];
	choices[2].options = WEIGHTED;
	choices[2].option_count = 2;
	rw_limits limits = {.batch_rows = 100};
	rw_error error;
	rw_replay *r;
	int fd = file_descriptor(f);
	t.status = rw_replay_open(&r, &fd, 1, choices, 5, &limits, &error);
	if (t.status != RW_OK) {
		assert_true(error.reason[0] != 0);
		close(fd);
		return t;
	}
	rw_batch batch;
	do {
		t.status = rw_replay_next(r, &batch, &error);
		assert_int_equal(t.status, RW_OK);
		for (uint64_t i = 0; i < batch.rows; i++)
			for (int k = 0; k < 5; k++) {
				/* No window is ever below one segment or above the largest. */
				assert_in_range(batch.cwnd_q16[k][i], 1 << 16, (uint64_t)1 << 36);
				assert_in_range(batch.cwnd_before_q16[k][i], 1 << 16, (uint64_t)1 << 36);
				assert_true(batch.ssthresh_q16[k][i] >= 2 << 16);
				assert_non_null(rw_phase_name(batch.phase[k][i]));
			}
		for (uint64_t i = 0; i < batch.rows; i++) {
			assert_true(batch.in_flight_bytes[i] <= 1u << 31);
			assert_true(batch.acked_segments[i] <= 1u << 30);
		}
		for (uint64_t i = 0; i < batch.marks; i++) {
			assert_non_null(rw_mark_name(batch.mark_kind[i]));
			assert_true(batch.mark_row[i] <= t.rows + batch.rows);
		}
		t.rows += batch.rows;
		t.marks += batch.marks;
	} while (batch.rows || batch.marks);
	rw_summary summary;
	rw_replay_summary(r, &summary);
	assert_int_equal(summary.rows, t.rows);
	t.tcp_packets = summary.tcp_packets;
	t.unseen_data_record = summary.oddity_record[RW_ODDITY_UNSEEN_DATA];
	t.connections = rw_replay_connections(r);
	uint32_t sum = 0;
	for (uint32_t i = 0; i < t.connections; i++) {
		rw_connection_row row;
		rw_replay_connection(r, i, &row);
		sum += row.subflows;
	}
	assert_int_equal(sum, rw_replay_subflows(r));
	for (uint32_t i = 0; i < sum; i++) {
		rw_subflow_row row;
		rw_replay_subflow(r, i, &row);
		assert_true(row.rtt_min_us <= row.rtt_p95_us || !row.rtt_samples);
	}
	rw_replay_close(r);
	close(fd);
	return t;
}

static int load(const char *folder, const char *name, struct file *f, size_t most)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *in = fopen(path, "rb");
	if (!in)
		return 0;
	f->n = fread(f->bytes, 1, most < sizeof f->bytes ? most : sizeof f->bytes, in);
	fclose(in);
	return f->n > 0;
}

static uint32_t seed = 1;

static uint32_t random_number(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)seed * below) >> 32);
}

/* Every capture of ours, whole and damaged: bytes changed, records cut out, the end missing. */
static void damaged_captures(void **state)
{
	(void)state;
	DIR *folder = opendir(TEST_CAPTURES);
	assert_non_null(folder);
	static struct file whole, damaged;
	int captures = 0;
	for (struct dirent *entry; (entry = readdir(folder));) {
		if (!strstr(entry->d_name, ".pcap") || !load(TEST_CAPTURES, entry->d_name, &whole, 60000))
			continue;
		captures++;
		struct totals t = replay(&whole);
		assert_int_equal(t.status, RW_OK);
		assert_true(t.rows > 100);
		for (int round = 0; round < 60; round++) {
			damaged = whole;
			for (uint32_t i = random_number(200); i > 0; i--)
				damaged.bytes[24 + random_number((uint32_t)damaged.n - 24)] =
				    (uint8_t)random_number(256);
			if (round % 3 == 0)
				damaged.n = 24 + random_number((uint32_t)damaged.n - 24);
			replay(&damaged);
		}
	}
	closedir(folder);
	assert_true(captures >= 4);
}

/*
 * The file is written on between the two passes: behind what the second one has read already, flows, handshakes and sizes
 * are not those that the survey saw.
 */
static void a_file_that_changes_between_the_passes(void **state)
{
	(void)state;
	enum { READ_AHEAD = 1 << 18 };
	static struct file first, other;
	assert_true(load(TEST_CAPTURES, "mptcp-three-subflows.pcap", &first, sizeof first.bytes));
	assert_true(load(TEST_CAPTURES, "mptcp-two-subflows.pcap", &other, sizeof other.bytes));
	for (int round = 0; round < 40; round++) {
		static struct file now;
		now = first;
		now.n = round % 4 == 0 ? READ_AHEAD + random_number(400000) : now.n;
		if (round % 4 == 1)
			memcpy(now.bytes + READ_AHEAD, other.bytes + READ_AHEAD, other.n - READ_AHEAD);
		if (round % 4 > 1)
			for (uint32_t i = random_number(20000); i > 0; i--)
				now.bytes[READ_AHEAD + random_number((uint32_t)now.n - READ_AHEAD)] =
				    (uint8_t)random_number(256);
		rw_choice choice = {NAMES[round % 5], NULL, 0};
		rw_limits limits = {.journal_kib = 1}; /* none: the file is read again */
		rw_error error;
		rw_batch batch;
		rw_replay *r;
		uint64_t rows = 0;
		int fd = file_descriptor(&first);
		assert_int_equal(rw_replay_open(&r, &fd, 1, &choice, 1, &limits, &error), RW_OK);
		assert_true(pwrite(fd, now.bytes, now.n, 0) == (ssize_t)now.n && ftruncate(fd, (off_t)now.n) == 0);
		lseek(fd, READ_AHEAD, SEEK_SET);
		do {
			assert_int_equal(rw_replay_next(r, &batch, &error), RW_OK);
			rows += batch.rows;
		} while (batch.rows || batch.marks);
		assert_true(rows > 500);
		rw_replay_close(r);
		close(fd);
	}
}

static uint64_t fold(uint64_t sum, const void *p, size_t n)
{
	for (const uint8_t *byte = p; n > 0; n--)
		sum = (sum ^ *byte++) * 1099511628211u;
	return sum;
}

/* What is filled from any place on is what one row after another says, and stops at the last. */
static void several_rows_are_single_rows(const rw_replay *r)
{
	enum { MOST = 3 };
	uint32_t subflows = rw_replay_subflows(r), connections = rw_replay_connections(r);
	for (uint32_t first = 0; first <= subflows; first++) {
		uint32_t count = subflows - first < MOST ? subflows - first : MOST;
		rw_subflow_row rows[MOST], row;
		rw_window_row windows[MOST], window;
		assert_int_equal(rw_replay_subflow_rows(r, first, rows, MOST), count);
		assert_int_equal(rw_replay_window_rows(r, 0, first, windows, MOST), count);
		for (uint32_t i = 0; i < count; i++) {
			rw_replay_subflow(r, first + i, &row);
			rw_replay_window(r, first + i, 0, &window);
			assert_memory_equal(&rows[i], &row, sizeof row);
			assert_memory_equal(&windows[i], &window, sizeof window);
		}
	}
	for (uint32_t first = 0; first <= connections; first++) {
		uint32_t count = connections - first < MOST ? connections - first : MOST;
		rw_connection_row rows[MOST], row;
		rw_violation_row violations[MOST], violation;
		assert_int_equal(rw_replay_connection_rows(r, first, rows, MOST), count);
		assert_int_equal(rw_replay_violation_rows(r, 0, first, violations, MOST), count);
		for (uint32_t i = 0; i < count; i++) {
			rw_replay_connection(r, first + i, &row);
			rw_replay_violations(r, first + i, 0, &violation);
			assert_memory_equal(&rows[i], &row, sizeof row);
			assert_memory_equal(&violations[i], &violation, sizeof violation);
		}
	}
	assert_int_equal(rw_replay_subflow_rows(r, subflows + 1, NULL, MOST), 0);
	assert_int_equal(rw_replay_connection_rows(r, UINT32_MAX, NULL, MOST), 0);
}

/* All that comes out of a replay with every controller, as one number. */
/* How a capture is replayed. jobs: 0 stands for one thread that keeps each step of the controllers. */
struct way {
	uint32_t jobs, journal_kib, flows_max;
};

static uint64_t told(const int *fds, uint32_t files, struct way way, uint64_t *rows)
{
	rw_choice choices[5] = {{0}};
	for (int i = 0; i < 5; i++)
		choices[i].name = NAMES[i];
	static const rw_choice detectors[] = {{"dwc", NULL, 0}, {"sbd", NULL, 0}};
	rw_limits limits = {.batch_rows = way.jobs ? 1 << 16 : 300,
			    .monitor = 1,
			    .transitions = way.jobs == 0,
			    .jobs = way.jobs,
			    .flows_max = way.flows_max,
			    .detectors = 2,
			    .detector = detectors,
			    .journal_kib = way.journal_kib,
			    .shared_bottlenecks = &detectors[1]};
	rw_replay *r;
	rw_error error;
	rw_batch b;
	rw_summary summary;
	uint64_t sum = 0, done, total;
	*rows = 0;
	assert_int_equal(rw_replay_open(&r, fds, files, choices, 5, &limits, &error), RW_OK);
	do {
		assert_int_equal(rw_replay_next(r, &b, &error), RW_OK);
		*rows += b.rows;
#define FOLD(column, n) sum = fold(sum, b.column, (n) * sizeof *b.column)
		FOLD(time_ns, b.rows);
		FOLD(connection, b.rows);
		FOLD(subflow, b.rows);
		FOLD(una, b.rows);
		FOLD(ack, b.rows);
		FOLD(acked_bytes, b.rows);
		FOLD(acked_segments, b.rows);
		FOLD(rtt_us, b.rows);
		FOLD(srtt_us, b.rows);
		FOLD(in_flight_bytes, b.rows);
		FOLD(window_bytes, b.rows);
		FOLD(segment_bytes, b.rows);
		FOLD(next, b.rows);
		FOLD(position, b.rows);
		FOLD(flags, b.rows);
		for (int k = 0; k < 5; k++) {
			FOLD(cwnd_before_q16[k], b.rows);
			FOLD(cwnd_q16[k], b.rows);
			FOLD(ssthresh_q16[k], b.rows);
			FOLD(phase[k], b.rows);
		}
		FOLD(mark_time_ns, b.marks);
		FOLD(mark_row, b.marks);
		FOLD(mark_connection, b.marks);
		FOLD(mark_subflow, b.marks);
		FOLD(mark_kind, b.marks);
		FOLD(mark_value, b.marks);
		FOLD(set_time_ns, b.sets);
		FOLD(set_number, b.sets);
		FOLD(transition, b.transitions);
#undef FOLD
		rw_replay_progress(r, &done, &total);
		assert_true(done <= total);
	} while (b.rows || b.marks);
	assert_int_equal(done, total);
	rw_replay_summary(r, &summary);
	sum = fold(sum, &summary, sizeof summary);
	for (uint32_t i = 0; i < rw_replay_subflows(r); i++) {
		rw_subflow_row row;
		rw_replay_subflow(r, i, &row);
		sum = fold(sum, &row, sizeof row);
	}
	for (uint32_t i = 0; i < rw_replay_connections(r); i++) {
		rw_connection_row row;
		rw_replay_connection(r, i, &row);
		sum = fold(sum, &row, sizeof row);
	}
	several_rows_are_single_rows(r);
	rw_replay_close(r);
	return sum;
}

/* Each of our captures, alone and with the one before it: the second pass tells the same from the journal and from the files. */
static void a_journal_tells_what_the_files_tell(void **state)
{
	(void)state;
	DIR *folder = opendir(TEST_CAPTURES);
	assert_non_null(folder);
	int fds[2] = {-1, -1}, captures = 0;
	for (struct dirent *entry; (entry = readdir(folder));) {
		char path[1024];
		snprintf(path, sizeof path, "%s/%s", TEST_CAPTURES, entry->d_name);
		if (!strstr(entry->d_name, ".pcap") || (fds[1] = open(path, O_RDONLY)) < 0)
			continue;
		for (uint32_t files = 1; files <= (captures ? 2u : 1u); files++) {
			uint64_t rows, again;
			uint64_t sum = told(fds + 2 - files, files, (struct way){0}, &rows);
			assert_true(rows > 500);
			assert_true(told(fds + 2 - files, files, (struct way){.journal_kib = 1}, &again) == sum);
			assert_int_equal(again, rows);
		}
		if (captures++)
			close(fds[0]);
		fds[0] = fds[1];
	}
	close(fds[0]);
	closedir(folder);
	assert_true(captures >= 3);
}

/* The passes put records of several interfaces in the same order. */
static void interfaces_are_merged_in_each_pass(void **state)
{
	(void)state;
	static struct file whole, f;
	assert_true(load(TEST_CAPTURES, "mptcp-two-subflows.pcap", &whole, sizeof whole.bytes));
	as_two_interfaces(&f, &whole, 3000);
	int fds[2] = {file_descriptor(&f), file_descriptor(&f)};
	for (uint32_t files = 1; files <= 2; files++) {
		uint64_t rows, again, sum = told(fds, files, (struct way){0}, &rows);
		assert_true(rows > 500);
		assert_true(told(fds, files, (struct way){.journal_kib = 1}, &again) == sum);
		assert_int_equal(again, rows);
	}
	close(fds[0]);
	close(fds[1]);
}

/* Two packets of one time, as records and as frames of one aggregate: the same, from the journal and from the file. */
static void aggregates_are_packets(void **state)
{
	(void)state;
	enum { PAIRS = 200 };
	static struct file whole, apart, joined;
	assert_true(load(TEST_CAPTURES, "mptcp-two-subflows.pcap", &whole, sizeof whole.bytes));
	apart.n = joined.n = 0;
	pcap_header(&apart, 0xa1b23c4d, 101, 0);
	pcap_header(&joined, 0xa1b23c4d, 105, 0);
	const uint8_t *record = whole.bytes + 24;
	for (int pair = 0; pair < PAIRS; pair++) {
		int64_t time_ns = little(record) * 1000000000ll + little(record + 4);
		static struct file frame;
		frame.n = 0;
		put(&frame, "\x88\1\0\0aaaaaabbbbbbcccccc\0\0\x80q", 26);
		for (int i = 0; i < 2; i++) {
			while (pair >= PAIRS / 2 && little(record + 12) > 1000)
				record += 16 + little(record + 8); /* data that is acknowledged and not there */
			uint32_t captured = little(record + 8), wire = little(record + 12);
			pcap_record(&apart, time_ns, 1, record + 16, captured, wire, 0);
			put(&frame, "ddddddssssss", 12);
			put_number(&frame, 8 + wire, 2, 1);
			put(&frame, "\xaa\xaa\3\0\0\0\x08\0", 8);
			put(&frame, record + 16, captured);
			for (uint32_t rest = captured; rest < wire || (rest + 22) % 4; rest++)
				put_number(&frame, 0, 1, 1);
			record += 16 + captured;
		}
		pcap_record(&joined, time_ns, 1, frame.bytes, (uint32_t)frame.n, (uint32_t)frame.n, 0);
	}
	struct totals expected = replay(&apart), found = replay(&joined);
	assert_int_equal(expected.tcp_packets, 2 * PAIRS);
	assert_int_equal(found.tcp_packets, 2 * PAIRS);
	assert_true(expected.rows > 50);
	assert_int_equal(found.rows, expected.rows);
	assert_int_equal(found.connections, expected.connections);
	assert_true(expected.unseen_data_record > PAIRS);
	assert_int_equal(found.unseen_data_record, (expected.unseen_data_record + 1) / 2);
	int fd = file_descriptor(&joined);
	uint64_t rows, again, sum = told(&fd, 1, (struct way){0}, &rows);
	assert_true(told(&fd, 1, (struct way){.journal_kib = 1}, &again) == sum);
	assert_int_equal(rows, expected.rows);
	close(fd);
}

/*
 * Connections in Ethernet frames, mixed: some of their packets in VLAN tags or fragments, some captured twice, some with a time
 * before that of the packet before; four-tuples used twice; and one connection that is silent for long.
 */
static void many_connections(struct file *f)
{
	enum { CONNECTIONS = 60, ROUNDS = 200, SILENT = 7 };
	static const uint8_t permitted[] = {2, 4, 5, 0xb4, 4, 2, 1, 1};
	static struct {
		uint32_t sent, state;
	} c[CONNECTIONS];
	memset(c, 0, sizeof c);
	f->n = 0;
	pcap_header(f, 0xa1b23c4d, 1, 0);
	int64_t now = 1000000000;
	for (uint32_t i = 0; i < ROUNDS * CONNECTIONS; i++) {
		uint32_t k = random_number(CONNECTIONS), state = c[k].state++;
		if (k == SILENT && state > 10 && i < ROUNDS * CONNECTIONS - 200) {
			c[k].state--;
			continue;
		}
		int resent = state > 3 && random_number(40) == 0;
		struct segment s = {.from_client = state % 2 == 0,
				    .client_port = (uint16_t)(40000 + k),
				    .sequence = state % 2 == 0 ? 1000 + c[k].sent - 1000u * (uint32_t)resent : 5000,
				    .ack = state % 2 == 0 ? 5000 : 1000 + c[k].sent,
				    .flags = 16,
				    .payload = state > 3 && state % 2 == 0 ? 1000 : 0,
				    .window = 65535};
		if (state < 2) {
			s = (struct segment){.from_client = state == 0,
					     .client_port = s.client_port,
					     .sequence = state == 0 ? 999 : 4999,
					     .ack = state == 0 ? 0 : 1000,
					     .flags = state == 0 ? 2 : 18,
					     .options = permitted,
					     .options_bytes = sizeof permitted,
					     .window = 65535};
		}
		c[k].sent += resent ? 0 : s.payload;
		if (state > 100 && random_number(20) == 0) { /* closed, and opened anew */
			s.flags |= 1;
			c[k].state = c[k].sent = 0;
		}
		uint8_t frame[300] = "ddddddssssss";
		size_t at = 12;
		if (random_number(10) == 0) {
			memcpy(frame + at, "\x81\0\0\1", 4);
			at += 4;
		}
		memcpy(frame + at, "\x08\0", 2);
		at += 2;
		size_t n = ipv4_tcp(frame + at, &s);
		if (random_number(100) == 0)
			frame[at + 6] |= 0x20; /* the first fragment of several */
		now += random_number(500000);
		int64_t time_ns = random_number(50) ? now : now - 1000000;
		for (int copies = random_number(30) == 0; copies >= 0; copies--)
			pcap_record(f, time_ns, 1, frame, (uint32_t)(at + n), (uint32_t)(at + n) + s.payload, 0);
	}
}

/* From the threads' journals and from the file; also where flows are too many, so that one thread has to survey. */
static void threads_tell_what_one_thread_tells(void **state)
{
	(void)state;
	static struct file f;
	many_connections(&f);
	/* A file that somebody may write to is copied, another one is mapped. */
	char path[] = "/tmp/rewindow.XXXXXX";
	int fds[] = {file_descriptor(&f), -1}, writer = mkstemp(path);
	assert_true(write(writer, f.bytes, f.n) == (ssize_t)f.n && close(writer) == 0);
	fds[1] = open(path, O_RDONLY);
	const uint32_t flows_max[] = {0, 30};
	for (int k = 0; k < 2; k++) {
		uint64_t rows, again, sum = told(fds, 1, (struct way){.jobs = 1, .flows_max = flows_max[k]}, &rows);
		assert_true(rows > 1000);
		for (uint32_t jobs = 2; jobs <= 20; jobs = 2 * jobs + 1)
			for (uint32_t mode = 0; mode < 4; mode++) {
				struct way way = {jobs, mode / 2, flows_max[k]};
				assert_true(told(&fds[mode % 2], 1, way, &again) == sum);
				assert_int_equal(again, rows);
			}
	}
	close(fds[0]);
	close(fds[1]);
	unlink(path);
}

/* Damage within TCP alone, so that records stay readable and the sender's reconstruction meets nonsense. */
static void nonsense_sequence_numbers(void **state)
{
	(void)state;
	static struct file f;
	for (int round = 0; round < 400; round++) {
		f.n = 0;
		pcap_header(&f, 0xa1b23c4d, 101, 0);
		int64_t now = 1000000000;
		uint32_t span = 1u << (4 + random_number(20));
		int sack = round % 2;
		static const uint8_t permitted[] = {2, 4, 5, 0xb4, 4, 2, 1, 1};
		for (int i = 0; i < 300; i++) {
			uint8_t packet[200], options[40] = {1, 1, 5, 10};
			for (int k = 4; k < 12; k++)
				options[k] = (uint8_t)(random_number(span) >> (k % 4 ? 24 - 8 * (k % 4) : 24));
			struct segment s = {.from_client = (int)random_number(2),
					    .sequence = random_number(span),
					    .ack = random_number(span),
					    .flags = (uint16_t)(16 | (random_number(30) ? 0 : random_number(8)) |
								(random_number(10) ? 0 : 64)),
					    .payload = random_number(3) ? 0 : random_number(20000),
					    .window = (uint16_t)random_number(65536)};
			if (i < 2) {
				s.from_client = i == 0;
				s.flags = i == 0 ? 2 : 18;
				s.payload = 0;
				s.options = permitted;
				s.options_bytes = sack ? sizeof permitted : 4;
			} else if (sack && random_number(2)) {
				s.options = options;
				s.options_bytes = 12;
			}
			size_t n = ipv4_tcp(packet, &s);
			now += random_number(4) ? random_number(1000000) : random_number(400000000);
			pcap_record(&f, now, 1, packet, (uint32_t)n, (uint32_t)n + s.payload, 0);
		}
		replay(&f);
	}
}

/* regressions/README.md says what each of them did. */
static void regressions(void **state)
{
	(void)state;
	DIR *folder = opendir(TEST_REGRESSIONS);
	assert_non_null(folder);
	static struct file f;
	int captures = 0;
	for (struct dirent *entry; (entry = readdir(folder));)
		if (strstr(entry->d_name, ".pcap") && load(TEST_REGRESSIONS, entry->d_name, &f, sizeof f.bytes)) {
			captures++;
			assert_int_equal(replay(&f).status, RW_OK);
		}
	closedir(folder);
	assert_true(captures >= 11);
}

/*
 * Beside the receiver a packet was sent a round trip before it is captured: the first one of many sets them all free, each
 * with marks of its own. Here every third is a retransmission after the window was given up: a fast retransmit each.
 */
static void marks_of_packets_that_are_set_free_together(void **state)
{
	(void)state;
	enum { ROUNDS = 4000 };
	static struct file f;
	f.n = 0;
	pcap_header(&f, 0xa1b23c4d, 101, 0);
	uint32_t sequence = 1;
	int64_t now = 1000000000;
	for (int i = 0; i < 3 + 3 * ROUNDS; i++) {
		uint8_t packet[100];
		struct segment s = {.from_client = i == 0 || i == 2, .flags = i == 0 ? 2 : i == 1 ? 18 : 16};
		s.sequence = i == 2;
		s.ack = i > 0;
		if (i >= 3) {
			s.payload = 100;
			sequence += i % 3 == 0 ? 0x50000000 : i % 3 == 1 ? 100 : 0;
			s.sequence = sequence;
		}
		now += i == 1 ? 3000000000 : 100;
		size_t n = ipv4_tcp(packet, &s);
		packet[4] = (uint8_t)(i >> 8); /* numbered: no copies */
		packet[5] = (uint8_t)i;
		pcap_record(&f, now, 1, packet, (uint32_t)n, (uint32_t)n + s.payload, 0);
	}
	int fd = file_descriptor(&f);
	rw_choice choice = {"newreno", NULL, 0};
	rw_limits limits = {.batch_rows = 10};
	rw_replay *r;
	rw_batch batch;
	rw_error error;
	uint64_t fast = 0;
	assert_int_equal(rw_replay_open(&r, &fd, 1, &choice, 1, &limits, &error), RW_OK);
	do {
		assert_int_equal(rw_replay_next(r, &batch, &error), RW_OK);
		for (uint64_t i = 0; i < batch.marks; i++)
			fast += batch.mark_kind[i] == RW_MARK_FAST_RETRANSMIT;
	} while (batch.rows || batch.marks);
	assert_int_equal(fast, ROUNDS);
	rw_replay_close(r);
	close(fd);
}

/* A clock that goes 136 years forth and back, thousands of times: the bounds of its drift do not run away. */
static void a_clock_that_leaps(void **state)
{
	(void)state;
	enum { LEAPS = 20000 };
	static struct file f;
	FILE *t = tmpfile();
	assert_non_null(t);
	for (int i = 0; i < 2 * LEAPS; i++) {
		uint8_t packet[100], options[] = {1, 1, 8, 10, 0, 0, (uint8_t)(i >> 8), (uint8_t)i, 0, 0, 0, 9};
		struct segment s = {.from_client = i == 0 || i == 2,
				    .flags = i == 0   ? 2
					     : i == 1 ? 18
						      : 16,
				    .options = options,
				    .options_bytes = sizeof options};
		s.sequence = i < 3 ? i == 2 : (uint32_t)i * 100;
		s.ack = i > 0;
		s.payload = i < 3 ? 0 : 100;
		/* The first and the last packet are as far apart as their timestamps: a clock of milliseconds. */
		int64_t now = i == 0 ? 1000000000 : i < 3 ? 4000000000 + i : i % 2 ? 5000000000 : 4000000000000000000;
		if (i == 2 * LEAPS - 1)
			now = 5000000000 + 2 * LEAPS * 1000000ll;
		f.n = 0;
		if (i == 0)
			pcap_header(&f, 0xa1b23c4d, 101, 0);
		size_t n = ipv4_tcp(packet, &s);
		pcap_record(&f, now, 1, packet, (uint32_t)n, (uint32_t)n + s.payload, 0);
		fwrite(f.bytes, 1, f.n, t);
	}
	assert_int_equal(fflush(t), 0);
	int fd = fileno(t);
	rw_replay *r;
	rw_batch batch;
	rw_error error;
	rw_subflow_row subflow;
	assert_int_equal(rw_replay_open(&r, &fd, 1, NULL, 0, NULL, &error), RW_OK);
	do
		assert_int_equal(rw_replay_next(r, &batch, &error), RW_OK);
	while (batch.rows || batch.marks);
	rw_replay_subflow(r, 0, &subflow);
	assert_int_equal(subflow.send_times, RW_SEND_TIMES_TIMESTAMPS);
	assert_int_equal(subflow.packets, 2 * LEAPS - 2);
	rw_replay_close(r);
	fclose(t);
}

static void nothing_and_no_tcp(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	pcap_header(&f, 0xa1b2c3d4, 101, 0);
	struct totals t = replay(&f);
	assert_int_equal(t.status, RW_OK);
	assert_int_equal(t.connections, 0);
	uint8_t packet[100];
	struct segment s = {.from_client = 1, .flags = 16};
	size_t n = ipv4_tcp(packet, &s);
	packet[9] = 17; /* UDP */
	pcap_record(&f, 0, 1000, packet, (uint32_t)n, (uint32_t)n, 0);
	t = replay(&f);
	assert_int_equal(t.tcp_packets, 0);
	assert_int_equal(t.connections, 0);
}

static void unknown_names_and_options(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	pcap_header(&f, 0xa1b2c3d4, 101, 0);
	int fd = file_descriptor(&f);
	const char *options[] = {"aca_md=never"};
	rw_choice choice = {"tccc", options, 1};
	rw_replay *r;
	rw_error error;
	assert_int_equal(rw_replay_open(&r, &fd, 1, &choice, 1, NULL, &error), RW_ERROR_BAD_VALUE);
	options[0] = "nope=1";
	assert_int_equal(rw_replay_open(&r, &fd, 1, &choice, 1, NULL, &error), RW_ERROR_UNKNOWN_OPTION);
	choice.name = "nope";
	assert_int_equal(rw_replay_open(&r, &fd, 1, &choice, 1, NULL, &error), RW_ERROR_UNKNOWN_ALGORITHM);
	assert_int_equal(rw_replay_open(&r, &fd, 0, NULL, 0, NULL, &error), RW_ERROR_BAD_VALUE);
	int closed = 999;
	assert_int_equal(rw_replay_open(&r, &closed, 1, NULL, 0, NULL, &error), RW_ERROR_READ);
	close(fd);
}

static void flows_are_limited(void **state)
{
	(void)state;
	static struct file f;
	f.n = 0;
	pcap_header(&f, 0xa1b2c3d4, 101, 0);
	for (uint16_t i = 0; i < 100; i++) {
		uint8_t packet[100];
		struct segment s = {.from_client = 1, .flags = 2, .client_port = (uint16_t)(2000 + i)};
		size_t n = ipv4_tcp(packet, &s);
		pcap_record(&f, i, 1000, packet, (uint32_t)n, (uint32_t)n, 0);
	}
	int fd = file_descriptor(&f);
	for (uint32_t journal_kib = 0; journal_kib < 2; journal_kib++) { /* 1: the second pass reads the file again */
		rw_limits limits = {.flows_max = 50, .journal_kib = journal_kib};
		rw_replay *r;
		rw_error error;
		rw_batch batch;
		rw_summary summary;
		assert_int_equal(rw_replay_open(&r, &fd, 1, NULL, 0, &limits, &error), RW_OK);
		assert_int_equal(rw_replay_next(r, &batch, &error), RW_OK);
		rw_replay_summary(r, &summary);
		assert_int_equal(rw_replay_connections(r), 50);
		assert_int_equal(summary.oddity[RW_ODDITY_TOO_MANY_FLOWS], 50);
		assert_int_equal(summary.oddity_record[RW_ODDITY_TOO_MANY_FLOWS], 51);
		rw_replay_close(r);
	}
	close(fd);
}

/* A record that is later than the first and earlier than the one before it goes back in time, and ends nothing. */
static void a_time_that_goes_back(void **state)
{
	(void)state;
	static const int64_t times_ns[] = {1000, 5000, 3000, 4000};
	static struct file f;
	uint8_t packet[100];
	struct segment s = {.from_client = 1, .flags = 2};
	size_t n = ipv4_tcp(packet, &s);
	f.n = 0;
	pcap_header(&f, 0xa1b23c4d, 101, 0);
	for (size_t i = 0; i < sizeof times_ns / sizeof *times_ns; i++)
		pcap_record(&f, times_ns[i], 1, packet, (uint32_t)n, (uint32_t)n, 0);
	int fd = file_descriptor(&f);
	rw_replay *r;
	rw_error error;
	rw_batch batch;
	rw_summary summary;
	assert_int_equal(rw_replay_open(&r, &fd, 1, NULL, 0, NULL, &error), RW_OK);
	assert_int_equal(rw_replay_next(r, &batch, &error), RW_OK);
	rw_replay_summary(r, &summary);
	assert_int_equal(summary.first_ns, 1000);
	assert_int_equal(summary.last_ns, 5000);
	assert_int_equal(summary.oddity[RW_ODDITY_BACKWARD_TIMESTAMP], 1);
	assert_int_equal(summary.oddity_record[RW_ODDITY_BACKWARD_TIMESTAMP], 3);
	rw_replay_close(r);
	close(fd);
}

enum { TRIPS = 40, SET_BACK = 10, SET_BACK_AGAIN = 25, DAY_S = 86400, ROUND_TRIP_NS = 20000000, PAUSE_NS = 100000 };

/*
 * A flow of one segment in flight, captured beside its sender, whose clock is set back twice by so much; every fourth segment and
 * every second ACK has met congestion.
 */
static void write_set_back(struct file *f, int64_t back_ns)
{
	int64_t now_ns = 3 * (int64_t)DAY_S * 1000000000;
	f->n = 0;
	pcap_header(f, 0xa1b23c4d, 101, 0);
	for (int i = 0; i < 3 + 2 * TRIPS; i++) {
		uint8_t packet[100];
		int trip = (i - 3) / 2, from_client = i < 3 ? i != 1 : i % 2;
		uint32_t sent = 1 + 100 * (uint32_t)(i < 3 ? 0 : trip + (i % 2 == 0));
		struct segment s = {.from_client = from_client, .flags = i == 0 ? 2 : i == 1 ? 18 : 16};
		s.sequence = i == 0 ? 0 : from_client ? sent : i > 1;
		s.ack = i == 0 ? 0 : from_client ? 1 : sent;
		s.payload = i >= 3 && from_client ? 100 : 0;
		now_ns += from_client ? PAUSE_NS : ROUND_TRIP_NS;
		if (i == 3 + 2 * SET_BACK || i == 3 + 2 * SET_BACK_AGAIN)
			now_ns -= back_ns;
		size_t n = ipv4_tcp(packet, &s);
		packet[1] = i >= 3 && trip % (from_client ? 4 : 2) == 0 ? 3 : 2;
		packet[4] = (uint8_t)from_client;
		packet[5] = (uint8_t)i;
		pcap_record(f, now_ns, 1, packet, (uint32_t)n, (uint32_t)n + s.payload, 0);
	}
}

/* A clock that was set back counts on from there, once, and up to a day in all: then the flow's time stands still. */
static void a_clock_that_is_set_back_counts_on(void **state)
{
	(void)state;
	static struct file f;
	for (int twice = 0; twice < 2; twice++) {
		write_set_back(&f, (twice ? DAY_S / 3 : 2 * DAY_S / 3) * 1000000000ll);
		int fd = file_descriptor(&f);
		rw_choice choice = {"newreno", NULL, 0};
		rw_limits limits = {.batch_rows = 2 * TRIPS};
		rw_replay *r;
		rw_error error;
		rw_batch batch;
		rw_subflow_row subflow;
		assert_int_equal(rw_replay_open(&r, &fd, 1, &choice, 1, &limits, &error), RW_OK);
		assert_int_equal(rw_replay_next(r, &batch, &error), RW_OK);
		assert_int_equal(batch.rows, TRIPS);
		for (int i = 1; i < TRIPS; i++) {
			/* A packet whose time was set back is as late as the one before. */
			int64_t expected_ns = ROUND_TRIP_NS + (i == SET_BACK || i == SET_BACK_AGAIN ? 0 : PAUSE_NS);
			if (!twice && i >= SET_BACK_AGAIN)
				expected_ns = 0;
			assert_int_equal(batch.time_ns[i] - batch.time_ns[i - 1], expected_ns);
		}
		rw_replay_subflow(r, 0, &subflow);
		assert_int_equal(subflow.ce_packets, TRIPS / 4);
		rw_replay_close(r);
		close(fd);
	}
}

/* Records of a capture may be a second out of order: a time that goes back no further was not set back, and stands still. */
static void a_time_that_goes_back_by_less_stands_still(void **state)
{
	(void)state;
	static struct file f;
	const int64_t second_ns = 1000000000, steps_ns[] = {50000000, second_ns, second_ns + 1};
	for (size_t k = 0; k < sizeof steps_ns / sizeof *steps_ns; k++) {
		write_set_back(&f, PAUSE_NS + steps_ns[k]); /* the record would have come a pause after the last */
		int fd = file_descriptor(&f);
		rw_choice choice = {"newreno", NULL, 0};
		rw_limits limits = {.batch_rows = 2 * TRIPS};
		rw_replay *r;
		rw_error error;
		rw_batch batch;
		assert_int_equal(rw_replay_open(&r, &fd, 1, &choice, 1, &limits, &error), RW_OK);
		assert_int_equal(rw_replay_next(r, &batch, &error), RW_OK);
		assert_int_equal(batch.rows, TRIPS);
		int64_t latest_ns = 0;
		for (int i = 1; i < SET_BACK_AGAIN; i++) {
			int64_t now_ns = i * (int64_t)(ROUND_TRIP_NS + PAUSE_NS);
			if (i >= SET_BACK)
				now_ns -= steps_ns[k] > second_ns ? PAUSE_NS : PAUSE_NS + steps_ns[k];
			latest_ns = now_ns > latest_ns ? now_ns : latest_ns;
			assert_int_equal(batch.time_ns[i] - batch.time_ns[0], latest_ns);
		}
		rw_replay_close(r);
		close(fd);
	}
}

/* A capture beside a copy of it that was decoded elsewhere: each record counts once, TCP comes from where it can be read. */
static void copies_count_once(void **state)
{
	(void)state;
	static struct file f[2];
	uint8_t packet[100];
	struct segment s = {.from_client = 1, .flags = 2};
	size_t n = ipv4_tcp(packet, &s);
	for (int i = 0; i < 2; i++) {
		f[i].n = 0;
		pcap_header(&f[i], 0xa1b23c4d, i ? 101 : 107, 0);
		pcap_record(&f[i], 5000, 1, packet, (uint32_t)n, 200, 0);
		pcap_record(&f[i], 3000, 1, packet, (uint32_t)n, 200, 0);
	}
	int fds[2] = {file_descriptor(&f[0]), file_descriptor(&f[1])};
	for (uint32_t copies = 0; copies < 2; copies++) {
		rw_limits limits = {.copies = copies};
		rw_replay *r;
		rw_error error;
		rw_summary summary;
		assert_int_equal(rw_replay_open(&r, fds, 2, NULL, 0, &limits, &error), RW_OK);
		rw_replay_summary(r, &summary);
		rw_replay_close(r);
		assert_int_equal(summary.packets, copies ? 2 : 4);
		assert_int_equal(summary.bytes, copies ? 400 : 800);
		assert_int_equal(summary.tcp_packets, 2);
		assert_int_equal(summary.link_types, copies ? 1 : 2);
		assert_int_equal(summary.link_type[0], 107);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(damaged_captures),
	    cmocka_unit_test(a_file_that_changes_between_the_passes),
	    cmocka_unit_test(a_journal_tells_what_the_files_tell),
	    cmocka_unit_test(interfaces_are_merged_in_each_pass),
	    cmocka_unit_test(aggregates_are_packets),
	    cmocka_unit_test(threads_tell_what_one_thread_tells),
	    cmocka_unit_test(nonsense_sequence_numbers),
	    cmocka_unit_test(regressions),
	    cmocka_unit_test(marks_of_packets_that_are_set_free_together),
	    cmocka_unit_test(a_clock_that_leaps),
	    cmocka_unit_test(nothing_and_no_tcp),
	    cmocka_unit_test(unknown_names_and_options),
	    cmocka_unit_test(flows_are_limited),
	    cmocka_unit_test(a_time_that_goes_back),
	    cmocka_unit_test(a_clock_that_is_set_back_counts_on),
	    cmocka_unit_test(a_time_that_goes_back_by_less_stands_still),
	    cmocka_unit_test(copies_count_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
