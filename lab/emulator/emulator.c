/*
 * A network between TUN devices: a packet that a host sends into its device crosses the links of its route and comes out of the
 * device of the destination. The links, their queues and their times are the core's (core-c/src/network); this program drives
 * them by the real clock.
 *
 *   rewindow-emulator <CONFIGURATION
 *
 * configuration.h describes the configuration. After `go` the devices are open: the program prints `ready`, waits for `start`,
 * prints `started N` (N: nanoseconds of CLOCK_MONOTONIC, the zero of every time in the configuration), and carries packets until
 * its input ends or SIGTERM or SIGINT arrives. Then it prints its counts as one JSON document.
 *
 * A packet's times follow from the time at which it was read from its device. The program may wake late and write a packet
 * late; `lateness_ns` measures this. A late packet does not delay the packets after it in its queue.
 *
 * Exit status: 0 done, 2 the configuration is wrong, 4 a device cannot be opened, or out of memory.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "configuration.h"
#include "lateness.h"

enum { PACKET_MAX = 1 << 16, BATCH = 64, FAILED = 4 };
enum { ECN_MASK = 3, ECN_CE = 3 };

/* A packet on its way, in a list of free ones when it is not. */
struct buffer {
	struct buffer *next;
	uint32_t bytes;
	uint16_t interface;
	uint8_t byte[];
};

/* Buffers of one size are reused, because most packets are full segments or ACKs. */
enum { SMALL_BYTES = 256, LARGE_BYTES = 2048 };

struct emulator {
	struct configuration configuration;
	int device[INTERFACES_MAX];
	int64_t start_ns;
	struct buffer *small, *large;
	struct lateness lateness;
	uint64_t unrouted, unwritten;
	int realtime, signals; /* signals: a descriptor for SIGTERM and SIGINT */
};

static int64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct buffer **free_list(struct emulator *e, uint32_t bytes)
{
	return bytes <= SMALL_BYTES ? &e->small : bytes <= LARGE_BYTES ? &e->large : NULL;
}

static struct buffer *take_buffer(struct emulator *e, uint32_t bytes)
{
	struct buffer **list = free_list(e, bytes), *b = list ? *list : NULL;
	if (b)
		*list = b->next;
	else
		b = malloc(sizeof *b + (bytes <= SMALL_BYTES   ? SMALL_BYTES
					: bytes <= LARGE_BYTES ? LARGE_BYTES
							       : bytes));
	if (b)
		b->bytes = bytes;
	return b;
}

static void give_back(struct emulator *e, struct buffer *b)
{
	struct buffer **list = free_list(e, b->bytes);
	if (!list) {
		free(b);
		return;
	}
	b->next = *list;
	*list = b;
}

/* Reads source, destination and the ECN bits. 0: no whole IP header. */
static int read_header(const uint8_t *p, size_t n, uint8_t ends[2 * ADDRESS_BYTES], int *ecn)
{
	memset(ends, 0, 2 * ADDRESS_BYTES);
	if (n >= 20 && p[0] >> 4 == 4) {
		memcpy(ends, p + 12, 4);
		memcpy(ends + ADDRESS_BYTES, p + 16, 4);
		*ecn = p[1] & ECN_MASK;
		return 1;
	}
	if (n < 40 || p[0] >> 4 != 6)
		return 0;
	memcpy(ends, p + 8, 2 * ADDRESS_BYTES);
	*ecn = p[1] >> 4 & ECN_MASK;
	return 1;
}

/* Sets "congestion experienced". IPv4's checksum changes with its second octet (RFC 1624, equation 3). */
static void mark(uint8_t *p)
{
	if (p[0] >> 4 == 6) {
		p[1] |= ECN_CE << 4;
		return;
	}
	uint32_t before = (uint32_t)p[0] << 8 | p[1], sum = (uint32_t)p[10] << 8 | p[11];
	p[1] |= ECN_CE;
	sum = (~sum & 0xffff) + (~before & 0xffff) + ((uint32_t)p[0] << 8 | p[1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~(sum + (sum >> 16)) & 0xffff;
	p[10] = (uint8_t)(sum >> 8);
	p[11] = (uint8_t)sum;
}

/* The network carries a number for each packet, here the index of its buffer. */
union carried {
	struct buffer *buffer;
	uint64_t number;
};

static struct buffer *buffer_of(uint64_t user)
{
	union carried carried = {.number = user};
	return carried.buffer;
}

static void deliver(struct emulator *e, const struct rw_network_packet *packet)
{
	struct buffer *b = buffer_of(packet->user);
	if (packet->marked)
		mark(b->byte);
	if (write(e->device[b->interface], b->byte, b->bytes) != (ssize_t)b->bytes)
		e->unwritten++;
	lateness_add(&e->lateness, clock_ns() - e->start_ns - packet->time_ns);
	give_back(e, b);
}

/* Writes all packets that are due by now. 0, or 1: out of memory. */
static int advance(struct emulator *e, int64_t now_ns)
{
	struct rw_network_packet packet;
	for (;;)
		switch (rw_network_advance(e->configuration.network, now_ns, &packet)) {
		case RW_NETWORK_DELIVERED:
			deliver(e, &packet);
			break;
		case RW_NETWORK_LOST:
			give_back(e, buffer_of(packet.user));
			break;
		case RW_NETWORK_FAILED:
			return 1;
		case RW_NETWORK_WAITING:
			return 0;
		}
}

/* Takes a packet that a host has just sent. 0, or 1: out of memory. */
static int carry(struct emulator *e, const uint8_t *p, uint32_t bytes)
{
	uint8_t ends[2 * ADDRESS_BYTES];
	int ecn;
	const struct route_between *route =
	    read_header(p, bytes, ends, &ecn) ? configuration_route(&e->configuration, ends) : NULL;
	if (!route) {
		e->unrouted++;
		return 0;
	}
	union carried carried = {.buffer = take_buffer(e, bytes)};
	struct buffer *b = carried.buffer;
	int64_t now_ns = clock_ns() - e->start_ns;
	if (!b || advance(e, now_ns))
		return 1;
	memcpy(b->byte, p, bytes);
	b->interface = route->interface;
	enum rw_network_outcome outcome =
	    rw_network_send(e->configuration.network, now_ns, route->route, carried.number, bytes, ecn != 0);
	if (outcome == RW_NETWORK_LOST)
		give_back(e, b);
	return outcome == RW_NETWORK_FAILED;
}

static int read_device(struct emulator *e, int device)
{
	static uint8_t packet[PACKET_MAX];
	for (int i = 0; i < BATCH; i++) {
		ssize_t n = read(device, packet, sizeof packet);
		if (n <= 0)
			return 0;
		if (carry(e, packet, (uint32_t)n))
			return 1;
	}
	return 0;
}

static int open_device(const char *name)
{
	struct ifreq request = {0};
	int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	strncpy(request.ifr_name, name, IFNAMSIZ - 1);
	request.ifr_flags = IFF_TUN | IFF_NO_PI;
	if (fd >= 0 && ioctl(fd, TUNSETIFF, &request) == 0)
		return fd;
	fprintf(stderr, "rewindow-emulator: TUN device %s: %s\n", name, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Drops packets from before the start, such as neighbour solicitations. */
static void empty_devices(struct emulator *e)
{
	uint8_t packet[PACKET_MAX];
	for (uint32_t i = 0; i < e->configuration.interfaces; i++)
		while (read(e->device[i], packet, sizeof packet) > 0)
			e->unrouted++;
}

/* Carries packets until the input ends or a signal arrives. 0, or 1: out of memory. */
static int run(struct emulator *e)
{
	const struct configuration *c = &e->configuration;
	enum { INPUT, SIGNALS, DEVICES };
	struct pollfd fd[DEVICES + INTERFACES_MAX] = {[INPUT] = {.fd = STDIN_FILENO, .events = POLLIN},
						      [SIGNALS] = {.fd = e->signals, .events = POLLIN}};
	for (uint32_t i = 0; i < c->interfaces; i++)
		fd[DEVICES + i] = (struct pollfd){.fd = e->device[i], .events = POLLIN};
	for (;;) {
		int64_t now_ns = clock_ns() - e->start_ns, next_ns = rw_network_next_ns(c->network);
		int64_t wait_ns = next_ns > now_ns ? next_ns - now_ns : 0;
		struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};
		int ready = ppoll(fd, DEVICES + c->interfaces, next_ns == RW_NEVER ? NULL : &wait, NULL);
		if (advance(e, clock_ns() - e->start_ns))
			return 1;
		if (ready <= 0)
			continue;
		for (uint32_t i = DEVICES; i < DEVICES + c->interfaces; i++)
			if (fd[i].revents & POLLIN && read_device(e, fd[i].fd))
				return 1;
		char byte;
		if (fd[SIGNALS].revents || (fd[INPUT].revents && read(STDIN_FILENO, &byte, 1) <= 0))
			return 0;
	}
}

static void print_report(const struct emulator *e)
{
	const struct configuration *c = &e->configuration;
	printf("{\"lateness_ns\": {\"median\": %" PRIu64 ", \"p99\": %" PRIu64 ", \"max\": %" PRIu64
	       ", \"packets\": %" PRIu64 "}, "
	       "\"realtime\": %s, \"unrouted\": %" PRIu64 ", \"unwritten\": %" PRIu64 ", \"links\": [",
	       lateness_quantile_ns(&e->lateness, 0.5), lateness_quantile_ns(&e->lateness, 0.99), e->lateness.max_ns,
	       e->lateness.packets, e->realtime ? "true" : "false", e->unrouted, e->unwritten);
	for (uint32_t i = 0; i < c->links; i++) {
		const struct rw_link_counts *n = rw_network_counts(c->network, i);
		printf("%s{\"name\": \"%s\", \"forwarded\": %" PRIu64 ", \"bytes\": %" PRIu64
		       ", \"dropped\": {\"queue\": %" PRIu64 ", \"loss\": %" PRIu64 ", \"discipline\": %" PRIu64
		       ", \"down\": %" PRIu64 "}, \"marked\": %" PRIu64 ", \"reordered\": %" PRIu64
		       ", \"queue_packets_max\": %" PRIu64 ", \"queue_bytes_max\": %" PRIu64 "}",
		       i ? ", " : "", c->link_name[i], n->forwarded, n->bytes, n->dropped_full, n->dropped_loss,
		       n->dropped_early, n->dropped_down, n->marked, n->reordered, n->queue_packets_max,
		       n->queue_bytes_max);
	}
	printf("]}\n");
}

/* Asks the system for precise wake-ups, and for real-time priority where it is permitted. */
static void be_punctual(struct emulator *e)
{
	struct sched_param priority = {.sched_priority = 1};
	e->realtime = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
	prctl(PR_SET_TIMERSLACK, 1);
}

/* From here on a signal is read like a packet, so that the program still reports; before, it ends the program. */
static int open_signals(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

int main(void)
{
	static struct emulator e;
	char text[16];
	setvbuf(stdin, NULL, _IONBF, 0); /* `run` polls for input that stdio has not read */
	if (configuration_read(&e.configuration, stdin)) {
		configuration_close(&e.configuration);
		return 2;
	}
	for (uint32_t i = 0; i < e.configuration.interfaces; i++)
		if ((e.device[i] = open_device(e.configuration.interface[i].name)) < 0)
			return FAILED;
	printf("ready\n");
	fflush(stdout);
	if (!fgets(text, sizeof text, stdin) || strcmp(text, "start\n") != 0) {
		fprintf(stderr, "rewindow-emulator: `start` is expected after `ready`\n");
		return 2;
	}
	e.signals = open_signals();
	if (e.signals < 0) {
		perror("rewindow-emulator: signals");
		return FAILED;
	}
	be_punctual(&e);
	empty_devices(&e);
	e.start_ns = clock_ns();
	printf("started %" PRId64 "\n", e.start_ns);
	fflush(stdout);
	if (run(&e)) {
		fprintf(stderr, "rewindow-emulator: out of memory\n");
		return FAILED;
	}
	print_report(&e);
	return 0; /* packets on their way are freed with the process */
}
