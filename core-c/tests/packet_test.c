#include "check.h"
#include "packet.h"
#include "packets.h"
#include "rw_ways.h"

static struct rw_oddity_counts oddities;
static struct rw_fragments *fragments; /* none: each record stands alone */

static enum rw_parse parse(uint32_t link_type, const struct file *f, uint32_t wire, struct rw_packet *p)
{
	memset(&oddities, 0, sizeof oddities);
	/* A copy of its own length: the sanitizer sees a byte too many. */
	uint8_t *bytes = malloc(f->n ? f->n : 1);
	memcpy(bytes, f->bytes, f->n);
	struct rw_record r = {
	    .bytes = bytes, .captured_bytes = (uint32_t)f->n, .wire_bytes = wire, .link_type = link_type};
	struct rw_fragments *own = fragments ? fragments : rw_fragments_open();
	enum rw_parse got = rw_packet_parse(&r, p, own, &oddities);
	if (got == RW_PARSE_SEVERAL)
		got = rw_packet_next(&r, p, own, &oddities);
	if (!fragments)
		rw_fragments_close(own);
	free(bytes);
	return got;
}

static size_t tcp(uint8_t *out)
{
	static const uint8_t options[] = {8, 10, 0, 0, 1, 0, 0, 0, 2, 0};
	struct segment s = {.from_client = 1,
			    .sequence = 7,
			    .ack = 9,
			    .flags = 0x18,
			    .payload = 100,
			    .options = options,
			    .options_bytes = sizeof options,
			    .ecn = 3};
	return ipv4_tcp(out, &s);
}

/* What is decoded can be redacted: its headers are known up to the end of TCP's, and the link type has a name. */
static void check_layers(uint32_t link_type, const struct file *f, uint32_t wire)
{
	struct rw_record r = {.bytes = f->bytes, .captured_bytes = (uint32_t)f->n, .wire_bytes = wire};
	r.link_type = link_type;
	struct rw_layers layers;
	struct rw_packet p;
	struct rw_fragments *open = rw_fragments_open();
	assert_non_null(rw_link_type_name(link_type));
	assert_int_not_equal(rw_packet_layers(&r, &p, open, &oddities, &layers), RW_PARSE_OTHER);
	assert_int_equal(layers.layer[layers.count - 1].kind, RW_LAYER_TCP);
	assert_int_equal(layers.headers_end, f->n);
	rw_fragments_close(open);
}

static void check_tcp(uint32_t link_type, const char *header, size_t n)
{
	struct file f = {.n = 0};
	put(&f, header, n);
	f.n += tcp(f.bytes + f.n);
	struct rw_packet p;
	size_t whole = f.n;
	assert_int_equal(parse(link_type, &f, (uint32_t)whole + 100, &p), RW_PARSE_TCP);
	assert_int_equal(p.family, 4);
	assert_int_equal(p.source_port, 1000);
	assert_int_equal(p.sequence, 7);
	assert_int_equal(p.ack, 9);
	assert_int_equal(p.payload_bytes, 100);
	assert_int_equal(p.ecn, RW_ECN_CE);
	assert_int_equal(p.ts_value, 256);
	assert_int_equal(p.ts_echo, 512);
	check_layers(link_type, &f, (uint32_t)whole + 100);
	/* Cut anywhere before the end of the fixed TCP header it is no TCP packet; nothing is read beyond. */
	for (f.n = 0; f.n < whole - 12; f.n++) {
		assert_int_equal(parse(link_type, &f, (uint32_t)whole + 100, &p), RW_PARSE_OTHER);
		/* Nothing says what is behind labels: it may be no header at all. */
		if (link_type != 219 && (n < 14 || memcmp(header + 12, "\x88\x47", 2)))
			assert_int_equal(oddities.count[RW_ODDITY_TRUNCATED_HEADER], 1);
	}
	/* Cut within the options: a packet, counted. */
	f.n = whole - 5;
	assert_int_equal(parse(link_type, &f, (uint32_t)whole + 100, &p), RW_PARSE_TCP);
	assert_int_equal(oddities.count[RW_ODDITY_TRUNCATED_HEADER], 1);
	assert_int_equal(p.payload_bytes, 100);
}

#define HEADER(link, text) check_tcp(link, text, sizeof(text) - 1)

static void link_layers(void **state)
{
	(void)state;
	HEADER(101, "");
	HEADER(228, "");
	HEADER(1, "ddddddssssss\x08\0");
	HEADER(1, "ddddddssssss\x81\0\0\x05\x08\0");
	HEADER(219, "\0\1\1\x40");
	HEADER(1, "ddddddssssss\x88\xa8\0\x05\x81\0\0\x06\x08\0");
	HEADER(1, "ddddddssssss\x88\x47\0\1\0\x40\0\2\1\x40");
	HEADER(1, "ddddddssssss\x88\x64\x11\0\0\1\0\x64\0\x21");
	HEADER(1, "ddddddssssss\x88\x64\x11\0\0\1\0\x64\x21"); /* compressed protocol */
	HEADER(1, "ddddddssssss\0\x50\xaa\xaa\3\0\0\0\x08\0"); /* 802.3, LLC, SNAP */
	HEADER(9, "\xff\3\0\x21");
	HEADER(10, "\x50"
		   "ddddddssssss\xaa\xaa\3\0\0\0\x08\0");
	HEADER(105, "\x08\1\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0");
	HEADER(127, "\0\0\x0a\0\0\0\0\0xx\x88\2\0\0aaaaaabbbbbbcccccc\0\0qq\xaa\xaa\3\0\0\0\x08\0");
	HEADER(
	    127,
	    "\0\0\x0e\0\2\0\0\x80\0\0\0\0\x20x\x88\2\0\0aaaaaabbbbbbcccccc\0\0qqpp\xaa\xaa\3\0\0\0\x08\0"); /* padded */
	HEADER(127, "\0\0\x12\0\3\0\0\0tttttttt\x20x\x88\2\0\0aaaaaabbbbbbcccccc\0\0qqpp\xaa\xaa\3\0\0\0\x08\0");
	HEADER(105, "\x88\1\0\0aaaaaabbbbbbcccccc\0\0\x80q"
		    "ddddddssssss\0\xa0\xaa\xaa\3\0\0\0\x08\0"); /* aggregate */
	HEADER(1, "ddddddssssss\0\x50\6\6\3"); /* IP's own LLC */
	HEADER(1, "ddddddssssss\x81\0\0\5\0\x50\xaa\xaa\3\0\0\0\x08\0");
	HEADER(1, "ddddddssssss\0\x50\xaa\xaa\3\0\x80\xc2\0\7"
		  "ddddddssssss\x08\0");
	HEADER(1, "ddddddssssss\x88\x47\0\1\1\x40\0\0\0\0"
		  "ddddddssssss\x08\0"); /* pseudowires */
	HEADER(1, "ddddddssssss\x88\x47\0\1\1\x40"
		  "ddddddssssss\x08\0");
	HEADER(1, "ddddddssssss\x88\x47\0\1\1\x40"
		  "\x40\0dddd\x40\5ssss\x81\0\0\5\x08\0");
	HEADER(1, "ddddddssssss\x88\xe5\x20\0pppp"
		  "channel \x08\0");
	HEADER(1, "ddddddssssss\x88\xe5\0\0pppp\x08\0");
	HEADER(1, "ddddddssssss\x88\xe7\0\0\0\7"
		  "ddddddssssss\x08\0");
	HEADER(1, "ddddddssssss\x89\x26vvvv\x08\0");
	HEADER(1, "ddddddssssss\x89\x3f"
		  "eeeeee\x08\0");
	HEADER(1, "ddddddssssss\x22\xf3\0\x40\0\1\0\2oooo"
		  "ddddddssssss\x08\0");
	HEADER(1, "ddddddssssss\x89\x4f\x0f\xc2\2\1pppp");
	HEADER(1, "ddddddssssss\x89\x4f\x0f\xc3\2\3ppppcccc"
		  "ddddddssssss\x08\0");
	HEADER(9, "\2\x81\0\1\1\x40");
	HEADER(1, "ddddddssssss\x92\0\0\5\x93\0\0\6\x08\0");
	HEADER(1, "ddddddssssss\x89\x09\1\1\0\1\0\7\x08\0"); /* Cisco's metadata */
	HEADER(1, "ddddddssssss\xd2\x8b\0\1\0\x10tttttttt\x08\0"); /* Arista's times */
	HEADER(1, "ddddddssssss\xd2\x8b\0\1\1\x20tttttt\x08\0");
	HEADER(119, "\x44\0\0\0\x0c\0\0\0nnnn\x08\1\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0");
	HEADER(119, "\0\0\0\x44\0\0\0\x0cnnnn\x08\1\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0");
	HEADER(119, "\x80\x21\x10\1\0\0\0\x0cnnnn\x08\1\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0"); /* AVS */
	HEADER(163, "\x80\x21\x10\2\0\0\0\x0cnnnn\x08\1\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0");
	HEADER(192, "\0\0\x0a\0\x69\0\0\0ff\x08\1\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0");
	HEADER(192, "\0\0\x08\0\1\0\0\0"
		    "ddddddssssss\x08\0");
	HEADER(9, "\xff\3\0\x3d\xc0\0\1\2\0\x21"); /* multilink */
	HEADER(9, "\0\x3d\x80\0\0\0\x21");
	HEADER(9, "\0\x3d\xc1\2\0\x21"); /* short numbers */
	HEADER(9, "\0\x3d\xc0\2\x21");
	HEADER(242, "gggggggggggggggggggggggggggggggggggggggg\x08\0\0\0");
	HEADER(113, "\0\0\0\1\0\6aaaaaaaa\x08\0");
	HEADER(113, "\0\0\0\1\0\6aaaaaaaa\0\4\xaa\xaa\3\0\0\0\x08\0");
	HEADER(276, "\x08\0\0\0\0\0\0\1\0\1\0\6aaaaaaaa");
	HEADER(0, "\2\0\0\0");
	HEADER(0, "\0\0\0\2");
	HEADER(108, "\0\0\0\2");
}

/* The test's TCP packet within outer headers of IPv4: `inner` is what stands between outer IP and the packet. */
static void check_tunnel(uint8_t protocol, const char *inner, size_t n)
{
	uint8_t packet[200];
	size_t size = tcp(packet);
	struct file f = {.n = 0};
	put_number(&f, 0x4500, 2, 1);
	put_number(&f, 20 + n + size + 100, 2, 1);
	put_number(&f, 0, 4, 1);
	put_number(&f, 64, 1, 1);
	put_number(&f, protocol, 1, 1);
	put_number(&f, 0, 2, 1);
	put_number(&f, 0, 8, 1);
	put(&f, inner, n);
	put(&f, packet, size);
	struct rw_packet p;
	assert_int_equal(parse(101, &f, (uint32_t)f.n + 100, &p), RW_PARSE_TCP);
	assert_int_equal(p.source[3], 1); /* of the inner header */
	assert_int_equal(p.source_port, 1000);
	assert_int_equal(p.payload_bytes, 100);
	for (size_t whole = f.n - 12, cut = 0; cut < whole; cut++) {
		f.n = cut;
		assert_int_equal(parse(101, &f, (uint32_t)whole + 112, &p), RW_PARSE_OTHER);
	}
}

#define TUNNEL(protocol, text) check_tunnel(protocol, text, sizeof(text) - 1)
#define UDP(port) "\x10\0" port "\0\0\0\0"

static void tunnels(void **state)
{
	(void)state;
	TUNNEL(4, "");
	TUNNEL(47, "\0\0\x08\0");
	TUNNEL(47, "\xb0\0\x08\0cccckkkkssss");
	TUNNEL(47, "\0\0\x65\x58"
		   "ddddddssssss\x08\0");
	TUNNEL(47, "\x30\x81\x88\x0bkkkkssssaaaa\0\x21");
	TUNNEL(47, "\0\0\x82\0\x08\1\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0");
	TUNNEL(17, UDP("\x12\xb5") "\x08\0\0\0\0\0\1\0"
				   "ddddddssssss\x08\0");
	TUNNEL(17, UDP("\x17\xc1") "\1\0\x65\x58\0\0\1\0oooo"
				   "ddddddssssss\x08\0");
	TUNNEL(17, UDP("\x17\xc1") "\0\0\x08\0\0\0\1\0");
	TUNNEL(17, UDP("\x08\x68") "\x30\xff\0\0tttt");
	TUNNEL(17, UDP("\x08\x68") "\x36\xff\0\0ttttss\0\x85\1xx\x85\1xx\0");
	TUNNEL(17, UDP("\x08\x68") "\x32\xff\0\0ttttss\0\x85"); /* no extension: the last byte says nothing */
	TUNNEL(51, "\4\4\0\0iiiissssaaaabbbbcccc");
	TUNNEL(97, "\x30\0"
		   "ddddddssssss\x08\0");
	TUNNEL(137, "\0\1\1\x40");
	TUNNEL(143, "ddddddssssss\x08\0");
	TUNNEL(47, "\0\0\x88\xbe"
		   "ddddddssssss\x08\0"); /* ERSPAN */
	TUNNEL(47, "\x10\0\x88\xbessss\x10\1\0\1iiii"
		   "ddddddssssss\x08\0");
	TUNNEL(47, "\x10\0\x22\xebssss\x20\1\0\1ttttgg\0\0"
		   "ddddddssssss\x08\0");
	TUNNEL(47, "\x10\0\x22\xebssss\x20\1\0\1ttttgg\0\1platform"
		   "ddddddssssss\x08\0");
	TUNNEL(47, "\x10\0\x22\xebssss\x20\1\0\1ttttgg\x08\0");
	TUNNEL(47, "\0\0\x88\x3errrr");
	TUNNEL(17, UDP("\6\xa5") "\0\2ttss\xff\3\0\x21");
	TUNNEL(115, "iiii"
		    "ddddddssssss\x08\0");
	TUNNEL(115, "iiii\0\0\0\0"
		    "ddddddss\x08\0ss\x08\0"); /* what stands at the place of a type is an address */
	TUNNEL(115, "iiiicookieco\x40\0\0\1"
		    "ddddddssssss\x81\0\0\5\x08\0");
	TUNNEL(115, "iiii\xff\3\0\x21");
	TUNNEL(17, UDP("\6\xa5") "\0\3rriiii\0\0\0\0"
				 "ddddddssssss\x08\0");
	TUNNEL(103, "\x21\0cc\0\0\0\0");
	TUNNEL(17, UDP("\6\xa5") "\x4a\2\0\0ttssnnrr\0\2oo\x21");
	TUNNEL(17, UDP("\x10\xf5") "\xc0nnniiii");
	TUNNEL(17, UDP("\x12\xb6") "\x0c\0\0\1\0\0\1\0");
	TUNNEL(17, UDP("\x12\xb6") "\x08\0\0\0\0\0\1\0"
				   "ddddddssssss\x08\0");
	TUNNEL(17, UDP("\x12\xb6") "\x0c\0\0\4\0\0\1\0\x0f\xc2\2\1pppp");
	TUNNEL(17, UDP("\x14\x7f") "\0\x10\2\0\0\0\0\0"
				   "ddddddssssss\x08\0");
	TUNNEL(17, UDP("\x14\x7f") "\0\x10\3\0\0\0\0\0\x08\1\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0");
	TUNNEL(
	    17,
	    UDP("\x14\x7f") "\0\x10\3\0\0\0\0\0\1\x08\0\0aaaaaabbbbbbcccccc\0\0\xaa\xaa\3\0\0\0\x08\0"); /* Cisco's */
	TUNNEL(17, UDP("\x14\x7f") "\0\x10\3\0\0\0\0\0\x09\x88\0\0aaaaaabbbbbbcccccc\0\0qq\xaa\xaa\3\0\0\0\x08\0");
	TUNNEL(17, UDP("\x19\xeb") "\0\1\1\x40");
	TUNNEL(17, UDP("\x90\x90") "\1\0\0\1\x0a\1x\0\1"
				   "ddddddssssss\x08\0");
}

/* A tunnel's packet in two IPv4 fragments: the first has the headers, and the length is the inner packet's. */
static void fragmented_tunnels(void **state)
{
	(void)state;
	uint8_t packet[200];
	size_t size = tcp(packet);
	for (uint16_t place = 0; place < 2; place++) {
		struct file f = {.n = 0};
		put_number(&f, 0x4500, 2, 1);
		put_number(&f, 20 + 16 + size + 40, 2, 1);
		put_number(&f, 0, 2, 1);
		put_number(&f, place ? 0x2001 : 0x2000, 2, 1);
		put_number(&f, 0x4011, 2, 1); /* UDP */
		put_number(&f, 0, 2, 1);
		put_number(&f, 0, 8, 1);
		put(&f, UDP("\x08\x68") "\x30\xff\0\0tttt", 16);
		put(&f, packet, size);
		struct rw_packet p;
		assert_int_equal(parse(101, &f, (uint32_t)f.n + 40, &p), place ? RW_PARSE_OTHER : RW_PARSE_TCP);
		assert_int_equal(oddities.count[RW_ODDITY_IP_FRAGMENT], 0);
		if (!place)
			assert_int_equal(p.payload_bytes, 100);
		f.bytes[9] = 6;
		assert_int_equal(parse(101, &f, (uint32_t)f.n + 40, &p), RW_PARSE_OTHER);
		assert_int_equal(oddities.count[RW_ODDITY_IP_FRAGMENT], 1);
	}
}

/* The test's TCP packet within `depth` headers of IPv4, each in the next by what `between` holds. */
static enum rw_parse nested(int depth, uint8_t protocol, const char *between, size_t n, struct rw_packet *p)
{
	uint8_t packet[200];
	size_t size = tcp(packet), rest = (size_t)depth * (20 + n) + size;
	struct file f = {.n = 0};
	for (int i = 0; i < depth; i++) {
		put_number(&f, 0x4500, 2, 1);
		put_number(&f, rest, 2, 1);
		put_number(&f, 0, 4, 1);
		put_number(&f, 64, 1, 1);
		put_number(&f, protocol, 1, 1);
		put_number(&f, 0, 2, 1);
		put_number(&f, 0, 8, 1);
		put(&f, between, n);
		rest -= 20 + n;
	}
	put(&f, packet, size);
	return parse(101, &f, (uint32_t)f.n + 100, p);
}

static void tunnels_in_tunnels_end(void **state)
{
	(void)state;
	static const struct {
		uint8_t protocol;
		const char *between;
		size_t n;
	} kinds[] = {{4, "", 0},
		     {47, "\0\0\x08\0", 4},
		     {47,
		      "\0\0\x65\x58"
		      "ddddddssssss\x88\x64\x11\0\0\1\0\x64\0\x21",
		      26},
		     {17,
		      UDP("\x12\xb5") "\x08\0\0\0\0\0\1\0"
				      "ddddddssssss\x08\0",
		      30},
		     {17, UDP("\x17\xc1") "\0\0\x08\0\0\0\1\0", 16},
		     {17, UDP("\x08\x68") "\x30\xff\0\0tttt", 16}};
	struct rw_packet p;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (int depth = 1; depth <= 1000; depth = depth < 10 ? depth + 1 : depth * 10)
			assert_int_equal(nested(depth, kinds[i].protocol, kinds[i].between, kinds[i].n, &p),
					 depth <= 7 ? RW_PARSE_TCP : RW_PARSE_OTHER);
}

static void tags_and_labels_end(void **state)
{
	(void)state;
	for (int mpls = 0; mpls < 2; mpls++)
		for (int tags = 1; tags <= 1000; tags = tags < 10 ? tags + 1 : tags * 10) {
			struct file f = {.n = 0};
			put(&f, "ddddddssssss", 12);
			if (mpls)
				put(&f, "\x88\x47", 2);
			for (int i = 0; i < tags; i++)
				put(&f, mpls ? i + 1 < tags ? "\0\1\0\x40" : "\0\1\1\x40" : "\x81\0\0\5", 4);
			if (!mpls)
				put(&f, "\x08\0", 2);
			f.n += tcp(f.bytes + f.n);
			struct rw_packet p;
			assert_int_equal(parse(1, &f, (uint32_t)f.n + 100, &p),
					 tags <= 7 + mpls ? RW_PARSE_TCP : RW_PARSE_OTHER);
		}
}

/* What no header says: what goes on in several links, what sets a session up, what is no register. */
static void no_packets_in_tunnels(void **state)
{
	(void)state;
	static const struct {
		uint32_t link_type;
		const char *header;
		size_t n;
	} kinds[] = {{9, "\0\x3d\x40\0\1\2\0\x21", 8},
		     {101,
		      "E\0\0\x64\0\0\0\0\x40\x73\0\0\x0a\0\0\1\x0a\0\0\2\0\0\0\0"
		      "ddddddssssss\x08\0",
		      38},
		     {101, "E\0\0\x64\0\0\0\0\x40\x67\0\0\x0a\0\0\1\x0a\0\0\2\x22\0cc\0\0\0\0", 28}};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct file f = {.n = 0};
		put(&f, kinds[i].header, kinds[i].n);
		f.n += tcp(f.bytes + f.n);
		struct rw_packet p;
		assert_int_equal(parse(kinds[i].link_type, &f, (uint32_t)f.n + 100, &p), RW_PARSE_OTHER);
		assert_int_equal(oddities.count[RW_ODDITY_TRUNCATED_HEADER], 0);
	}
}

/* One frame of an aggregate: the test's TCP packet with this number, or another protocol. */
static void put_subframe(struct file *f, uint16_t type, uint32_t sequence)
{
	struct segment s = {.from_client = 1, .sequence = sequence, .ack = 9, .flags = 0x18, .payload = 101};
	uint8_t packet[200];
	size_t size = ipv4_tcp(packet, &s);
	for (size_t i = size; i < size + 101; i++)
		packet[i] = 'p';
	put(f, "ddddddssssss", 12);
	put_number(f, 8 + size + 101, 2, 1);
	put(f, "\xaa\xaa\3\0\0\0", 6);
	put_number(f, type, 2, 1);
	put(f, packet, size + 101);
}

/* IEEE 802.11-2020 9.3.2.2: several frames in one, each padded to four bytes; a frame check sequence may follow. */
static void aggregates(void **state)
{
	(void)state;
	for (int trailer = 0; trailer < 5; trailer += 4) {
		struct file f = {.n = 0};
		put(&f, "\x88\1\0\0aaaaaabbbbbbcccccc\0\0\x80q", 26);
		for (uint32_t i = 0; i < 4; i++) {
			put_subframe(&f, i == 1 ? 0x0806 : 0x0800, 100 + i);
			put(&f, "\0\0\0", i < 3 ? 1 : 0);
		}
		put(&f, "FCSF", (size_t)trailer);
		struct rw_record r = {.bytes = f.bytes,
				      .captured_bytes = (uint32_t)f.n,
				      .wire_bytes = (uint32_t)f.n,
				      .link_type = 105,
				      .time_ns = 5,
				      .offset = 6};
		struct rw_packet p;
		struct rw_fragments *own = rw_fragments_open();
		memset(&oddities, 0, sizeof oddities);
		assert_int_equal(rw_packet_parse(&r, &p, own, &oddities), RW_PARSE_SEVERAL);
		for (uint32_t i = 0; i < 4; i += i ? 1 : 2) {
			assert_int_equal(rw_packet_next(&r, &p, own, &oddities), RW_PARSE_TCP);
			assert_int_equal(p.sequence, 100 + i);
			assert_int_equal(p.payload_bytes, 101);
			assert_true(p.time_ns == 5 && p.offset == 6);
		}
		assert_int_equal(rw_packet_next(&r, &p, own, &oddities), RW_PARSE_OTHER);
		assert_int_equal(rw_packet_next(&r, &p, own, &oddities), RW_PARSE_OTHER);
		for (int i = 0; i < RW_ODDITY_COUNT; i++)
			assert_int_equal(oddities.count[i], 0);
		/* The snap length leaves of the third frame no header: that is one oddity, and not the end of what came before. */
		r.captured_bytes = 26 + 2 * 164 + 10;
		assert_int_equal(rw_packet_parse(&r, &p, own, &oddities), RW_PARSE_SEVERAL);
		assert_int_equal(rw_packet_next(&r, &p, own, &oddities), RW_PARSE_TCP);
		assert_int_equal(rw_packet_next(&r, &p, own, &oddities), RW_PARSE_OTHER);
		assert_int_equal(rw_packet_next(&r, &p, own, &oddities), RW_PARSE_OTHER);
		assert_int_equal(oddities.count[RW_ODDITY_TRUNCATED_HEADER], 1);
		rw_fragments_close(own);
	}
}

static void unknown_link_types_are_counted(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	f.n = tcp(f.bytes);
	struct rw_packet p;
	assert_int_equal(parse(999, &f, 200, &p), RW_PARSE_OTHER);
	assert_int_equal(oddities.count[RW_ODDITY_UNKNOWN_LINK_TYPE], 1);
	struct file g = {.n = 0}; /* information on a packet, in information on it, ... */
	for (int i = 0; i < 1000; i++)
		put(&g, "\0\0\x08\0\xc0\0\0\0", 8);
	assert_int_equal(parse(192, &g, (uint32_t)g.n, &p), RW_PARSE_OTHER);
}

static void ipv6(struct file *f, uint8_t next, uint32_t payload)
{
	put_number(f, 0x60300000, 4, 1); /* CE */
	put_number(f, payload, 2, 1);
	put_number(f, next, 1, 1);
	put_number(f, 64, 1, 1);
	put(f, "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb", 32);
}

static void tcp_header(struct file *f)
{
	uint8_t packet[100];
	tcp(packet);
	put(f, packet + 20, 32);
}

static void ipv6_extension_headers(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	ipv6(&f, 0, 8 + 16 + 8 + 32 + 100);
	put(&f, "\x2b\0\1\4\0\0\0\0", 8); /* hop-by-hop */
	put(&f, "\x2c\1\0\0\0\0\0\0aaaaaaaa", 16); /* routing, two units */
	put(&f, "\6\0\0\0\0\0\0\1", 8); /* atomic fragment */
	tcp_header(&f);
	struct rw_packet p;
	assert_int_equal(parse(101, &f, (uint32_t)f.n + 100, &p), RW_PARSE_TCP);
	assert_int_equal(p.family, 6);
	assert_int_equal(p.payload_bytes, 100);
	assert_int_equal(p.ecn, 3);
	f.bytes[40 + 8 + 16 + 3] = 8; /* an offset: a true fragment */
	assert_int_equal(parse(101, &f, (uint32_t)f.n + 100, &p), RW_PARSE_OTHER);
	assert_int_equal(oddities.count[RW_ODDITY_IP_FRAGMENT], 1);
}

/* RFC 8200 8.1, RFC 6275 11.3.1: TCP's ends are the last address of a route and the home address. */
static void ipv6_ends_are_those_of_tcp(void **state)
{
	(void)state;
	static const struct {
		const char *header;
		size_t n;
		uint8_t kind, source, destination;
	} headers[] = {{"\6\4\4\1\1\0\0\0ccccccccccccccccdddddddddddddddd", 40, 43, 'a', 'c'},
		       {"\6\4\4\0\1\0\0\0ccccccccccccccccdddddddddddddddd", 40, 43, 'a', 'b'}, /* arrived */
		       {"\6\4\0\1\0\0\0\0ccccccccccccccccdddddddddddddddd", 40, 43, 'a', 'd'},
		       {"\6\2\2\1\0\0\0\0cccccccccccccccc", 24, 43, 'a', 'c'},
		       {"\6\0\4\1\1\0\0\0", 8, 43, 'a', 'b'}, /* a route without addresses */
		       {"\6\2\1\2\0\0\xc9\x10hhhhhhhhhhhhhhhh", 24, 60, 'h', 'b'}};
	for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
		struct file f = {.n = 0};
		ipv6(&f, headers[i].kind, (uint32_t)headers[i].n + 32 + 100);
		put(&f, headers[i].header, headers[i].n);
		tcp_header(&f);
		struct rw_packet p;
		assert_int_equal(parse(101, &f, (uint32_t)f.n + 100, &p), RW_PARSE_TCP);
		for (int k = 0; k < 16; k++) {
			assert_int_equal(p.source[k], headers[i].source);
			assert_int_equal(p.destination[k], headers[i].destination);
		}
		assert_int_equal(p.payload_bytes, 100);
	}
}

/* Ethernet in labels in Ethernet, and service chains in each other: no IP header counts them. */
static void layers_without_ip_end(void **state)
{
	(void)state;
	static const struct {
		const char *layer;
		size_t n;
	} kinds[] = {{"ddddddssssss\x88\x47\0\1\1\x40\0\0\0\0", 22}, {"ddddddssssss\x89\x4f\x0f\xc2\2\3pppp", 22}};
	for (size_t i = 0; i < 2; i++)
		for (int depth = 1; depth <= 10000; depth = depth < 20 ? depth + 1 : depth * 10) {
			struct file f = {.n = 0};
			for (int k = 0; k < depth; k++)
				put(&f, kinds[i].layer, kinds[i].n);
			put(&f, "ddddddssssss\x08\0", 14);
			f.n += tcp(f.bytes + f.n);
			struct rw_packet p;
			assert_int_equal(parse(1, &f, (uint32_t)f.n + 100, &p),
					 depth < 16 ? RW_PARSE_TCP : RW_PARSE_OTHER);
		}
}

static void encrypted_frames_are_none(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	put(&f, "ddddddssssss\x88\xe5\x2c\0ppppchannel \x08\0", 30);
	f.n += tcp(f.bytes + f.n);
	struct rw_packet p;
	assert_int_equal(parse(1, &f, (uint32_t)f.n + 100, &p), RW_PARSE_OTHER);
}

/* One fragment of the test's TCP packet with `payload` bytes in all; IPv4 or IPv6. */
static enum rw_parse fragment(int family, uint32_t identification, uint32_t offset, uint32_t bytes, int more,
			      struct rw_packet *p)
{
	struct file f = {.n = 0};
	if (family == 6) {
		ipv6(&f, 44, 8 + bytes);
		put(&f, "\6\0", 2);
		put_number(&f, offset | !!more, 2, 1);
		put_number(&f, identification, 4, 1);
	} else {
		put_number(&f, 0x4500, 2, 1);
		put_number(&f, 20 + bytes, 2, 1);
		put_number(&f, identification, 2, 1);
		put_number(&f, (more ? 0x2000 : 0) | offset / 8, 2, 1);
		put_number(&f, 0x4006, 2, 1);
		put_number(&f, 0, 2, 1);
		put(&f, "ssssdddd", 8);
	}
	size_t before = f.n;
	uint8_t packet[100];
	tcp(packet);
	for (uint32_t i = offset; i < 32 && i < offset + bytes; i++)
		put(&f, packet + 20 + i, 1);
	return parse(101, &f, (uint32_t)before + bytes, p);
}

/* RFC 1858: a first fragment that is too small for TCP's header. */
static void a_header_in_fragments(void **state)
{
	(void)state;
	static const struct {
		uint32_t offset, bytes;
		int more;
	} parts[] = {{0, 8, 1}, {8, 16, 1}, {24, 400, 1}, {424, 100, 0}};
	static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
	for (int family = 4; family <= 6; family += 2)
		for (size_t order = 0; order < 3; order++) {
			struct rw_packet p;
			fragments = rw_fragments_open();
			for (int i = 0; i < 4; i++) {
				int k = orders[order][i];
				enum rw_parse got =
				    fragment(family, 1, parts[k].offset, parts[k].bytes, parts[k].more, &p);
				assert_int_equal(got, i < 3 ? RW_PARSE_OTHER : RW_PARSE_TCP);
				assert_int_equal(oddities.count[RW_ODDITY_TRUNCATED_HEADER] +
						     oddities.count[RW_ODDITY_BAD_LENGTH],
						 0);
			}
			assert_int_equal(p.source_port, 1000);
			assert_int_equal(p.sequence, 7);
			assert_int_equal(p.ts_value, 256);
			assert_int_equal(p.payload_bytes, 524 - 32);
			assert_int_equal(p.ecn, family == 6 ? RW_ECN_CE : 0); /* as all of these fragments are */
			assert_int_equal(rw_fragments_lost(fragments), 0);
			rw_fragments_close(fragments);
			fragments = NULL;
		}
}

static void fragments_are_put_together(void **state)
{
	(void)state;
	struct rw_packet p;
	for (int family = 4; family <= 6; family += 2) {
		fragments = rw_fragments_open();
		/* In order, out of order with one twice, and two datagrams at once. */
		assert_int_equal(fragment(family, 1, 0, 800, 1, &p), RW_PARSE_OTHER);
		assert_int_equal(oddities.count[RW_ODDITY_IP_FRAGMENT], 1);
		assert_int_equal(fragment(family, 1, 800, 232, 0, &p), RW_PARSE_TCP);
		assert_int_equal(p.payload_bytes, 1032 - p.tcp_header_bytes);
		assert_int_equal(fragment(family, 2, 1600, 100, 0, &p), RW_PARSE_OTHER);
		assert_int_equal(fragment(family, 3, 0, 800, 1, &p), RW_PARSE_OTHER);
		assert_int_equal(fragment(family, 2, 800, 800, 1, &p), RW_PARSE_OTHER);
		assert_int_equal(fragment(family, 2, 800, 800, 1, &p), RW_PARSE_OTHER);
		assert_int_equal(fragment(family, 2, 0, 800, 1, &p), RW_PARSE_TCP);
		assert_int_equal(p.payload_bytes, 1700 - p.tcp_header_bytes);
		assert_int_equal(p.family, family);
		assert_int_equal(rw_fragments_lost(fragments), 1); /* the third lacks its end */
		/* A last fragment that ends before another began contradicts it. */
		assert_int_equal(fragment(family, 4, 800, 800, 1, &p), RW_PARSE_OTHER);
		assert_int_equal(fragment(family, 4, 400, 8, 0, &p), RW_PARSE_OTHER);
		assert_int_equal(rw_fragments_lost(fragments), 2);
		/* Nor may it go on for longer than any datagram. */
		assert_int_equal(fragment(family, 5, 65528, 16, 0, &p), RW_PARSE_OTHER);
		assert_int_equal(oddities.count[RW_ODDITY_BAD_LENGTH], 1);
		/* No more are kept than there are places, whatever comes. */
		for (uint32_t i = 0; i < 5000; i++)
			assert_int_equal(fragment(family, 1000 + i, 0, 800, 1, &p), RW_PARSE_OTHER);
		assert_int_equal(rw_fragments_lost(fragments), 5002);
		/* Nor more holes than ranges. */
		for (uint32_t i = 0; i < 20; i++)
			assert_int_equal(fragment(family, 9, 16 + 32 * i, 16, 1, &p), RW_PARSE_OTHER);
		assert_int_equal(fragment(family, 9, 0, 800, 1, &p), RW_PARSE_OTHER);
		rw_fragments_close(fragments);
		fragments = NULL;
	}
}

static void endless_extension_headers_end(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	ipv6(&f, 60, 60000);
	for (int i = 0; i < 1000; i++)
		put(&f, "\x3c\0\1\4\0\0\0\0", 8);
	struct rw_packet p;
	assert_int_equal(parse(101, &f, 60040, &p), RW_PARSE_OTHER);
	assert_int_equal(oddities.count[RW_ODDITY_BAD_OPTION_LENGTH], 1);
}

/* Each header names the next: hop-by-hop, routing, AH, an atomic fragment and again, far more than any packet carries. */
static void cyclic_extension_headers_end(void **state)
{
	(void)state;
	for (int rounds = 1; rounds <= 1000; rounds *= 10) {
		struct file f = {.n = 0};
		ipv6(&f, 0, 60000);
		for (int i = 0; i < rounds; i++) {
			put(&f, "\x2b\0\1\4\0\0\0\0", 8);
			put(&f, "\x33\0\1\4\0\0\0\0", 8);
			put(&f, "\x2c\1\0\0aaaaaaaa", 12);
			put(&f, i + 1 < rounds ? "\0\0\0\0\0\0\0\1" : "\6\0\0\0\0\0\0\1", 8);
		}
		tcp_header(&f);
		struct rw_packet p;
		assert_int_equal(parse(101, &f, 60040, &p), rounds == 1 ? RW_PARSE_TCP : RW_PARSE_OTHER);
		assert_int_equal(oddities.count[RW_ODDITY_BAD_OPTION_LENGTH], rounds > 1);
	}
	struct file f = {.n = 0}; /* a header that contains itself: shorter than what its own length says is left */
	ipv6(&f, 0, 8);
	put(&f, "\0\xff\1\4\0\0\0\0", 8);
	for (int i = 0; i < 300; i++)
		put(&f, "\0\xff\1\4\0\0\0\0", 8);
	struct rw_packet p;
	assert_int_equal(parse(101, &f, 48, &p), RW_PARSE_OTHER);
	assert_int_equal(oddities.count[RW_ODDITY_BAD_LENGTH], 1);
}

static void jumbograms(void **state)
{
	(void)state;
	struct file f = {.n = 0};
	ipv6(&f, 0, 0);
	put(&f, "\6\0\xc2\4", 4);
	put_number(&f, 8 + 32 + 80000, 4, 1);
	tcp_header(&f);
	struct rw_packet p;
	assert_int_equal(parse(101, &f, 40 + 8 + 32 + 80000, &p), RW_PARSE_TCP);
	assert_int_equal(p.payload_bytes, 80000);
	struct file g = {.n = 0};
	g.n = tcp(g.bytes);
	g.bytes[2] = g.bytes[3] = 0; /* IPv4 BIG TCP: no total length */
	assert_int_equal(parse(101, &g, 20 + 32 + 90000, &p), RW_PARSE_TCP);
	assert_int_equal(p.payload_bytes, 90000);
}

static int options(const char *bytes, size_t n, uint16_t flags, struct rw_packet *p)
{
	struct file f = {.n = 0};
	struct segment s = {.from_client = 1, .flags = flags, .options = (const uint8_t *)bytes, .options_bytes = n};
	f.n = ipv4_tcp(f.bytes, &s);
	assert_int_equal(parse(101, &f, (uint32_t)f.n, p), RW_PARSE_TCP);
	return (int)oddities.count[RW_ODDITY_BAD_OPTION_LENGTH];
}

#define OPTIONS(text, flags) options(text, sizeof(text) - 1, flags, &p)

static void tcp_options(void **state)
{
	(void)state;
	struct rw_packet p;
	assert_int_equal(OPTIONS("\2\4\5\xb4\4\2\3\3\x0f", 2), 0);
	assert_int_equal(p.mss, 1460);
	assert_int_equal(p.sack_permitted, 1);
	assert_int_equal(p.window_scale, 14); /* RFC 7323: more than 14 counts as 14 */
	assert_int_equal(OPTIONS("\5\x12\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4", 16), 0);
	assert_int_equal(p.sack_count, 2);
	assert_int_equal(p.sack[1].end, 4);
	assert_int_equal(OPTIONS("\5\2", 16), 0); /* empty SACK */
	assert_int_equal(p.sack_count, 0);
	assert_int_equal(OPTIONS("\5\x0b\0\0\0\1\0\0\0\2\0", 16), 1);
	assert_int_equal(OPTIONS("\2\0\5\xb4", 2), 1);
	assert_int_equal(OPTIONS("\2\1\5\xb4", 2), 1);
	assert_int_equal(OPTIONS("\2\x40\5\xb4", 2), 1); /* longer than the header */
	assert_int_equal(OPTIONS("\xfe\4\xf9\x89", 2), 0); /* unknown: passed over */
	assert_int_equal(OPTIONS("\0\xff\xff\xff", 2), 0);
}

/* A length of 0 or 1 never moves on: what follows is not read, and the list ends there, counted once. */
static void option_loops_end(void **state)
{
	(void)state;
	static const uint8_t kinds[] = {2, 3, 4, 5, 8, 30, 254};
	for (size_t i = 0; i < sizeof kinds; i++)
		for (char length = 0; length < 2; length++) {
			char bytes[] = "\1\3\3\7oo\3\3\5\2\4\5\xb4";
			struct rw_packet p;
			bytes[4] = (char)kinds[i];
			bytes[5] = length;
			assert_int_equal(options(bytes, sizeof bytes - 1, 2, &p), 1);
			assert_int_equal(p.window_scale, 7);
			assert_int_equal(p.option_mss, 0);
		}
	struct file f = {.n = 0}; /* GTP-U's extensions: a length of 0 */
	put(&f, "E\0\0\x64\0\0\0\0\x40\x11\0\0\x0a\0\0\1\x0a\0\0\2" UDP("\x08\x68") "\x34\xff\0\0ttttss\0\x85", 40);
	for (int k = 0; k < 8; k++)
		put(&f, "\0\0\0\x85", 4);
	f.n += tcp(f.bytes + f.n);
	struct rw_packet p;
	assert_int_equal(parse(101, &f, (uint32_t)f.n, &p), RW_PARSE_OTHER);
	assert_int_equal(oddities.count[RW_ODDITY_BAD_OPTION_LENGTH], 1);
	struct file g = {.n = 0}; /* netlink's attributes: a length below that of their own header, in either order */
	put(&g, "\2\0\0\0\0\0\0\0aaaaaaaa", 16);
	assert_int_equal(parse(239, &g, 16, &p), RW_PARSE_OTHER);
	assert_int_equal(oddities.count[RW_ODDITY_BAD_LENGTH], 1);
}

static void mptcp_options(void **state)
{
	(void)state;
	struct rw_packet p;
	assert_int_equal(OPTIONS("\x1e\4\1\x81", 2), 0); /* v1 SYN: no key */
	assert_int_equal(p.mptcp.seen, 1 << RW_MP_CAPABLE);
	assert_int_equal(p.mptcp.version, 1);
	assert_int_equal(p.mptcp.keys, 0);
	assert_int_equal(p.mptcp.checksum_required, 1);
	assert_int_equal(OPTIONS("\x1e\x0c\0\1\1\2\3\4\5\6\7\x08", 2), 0); /* v0 SYN */
	assert_int_equal(p.mptcp.version, 0);
	assert_true(p.mptcp.key[0] == 0x0102030405060708);
	assert_int_equal(OPTIONS("\x1e\x16\1\1"
				 "kkkkkkkkKKKKKKKK\1\2",
				 24),
			 0); /* v1 with data */
	assert_int_equal(p.mptcp.keys, 2);
	assert_int_equal(p.mptcp.data_length, 258);
	assert_int_equal(OPTIONS("\x1e\x0c\x11\3\1\2\3\4nnnn", 2), 0); /* JOIN SYN */
	assert_int_equal(p.mptcp.join_token, 0x01020304);
	assert_int_equal(p.mptcp.join_backup, 1);
	assert_int_equal(OPTIONS("\x1e\x10\x10\3hhhhhhhhnnnn", 18), 0);
	assert_int_equal(p.mptcp.has_join_token, 0);
	assert_int_equal(OPTIONS("\x1e\x18\x10\0hhhhhhhhhhhhhhhhhhhh", 16), 0);
	/* DSS: 64-bit ack, 64-bit mapping, DATA_FIN, checksum */
	assert_int_equal(OPTIONS("\x1e\x1c\x20\x1f\0\0\0\0\0\0\0\5\0\0\0\1\0\0\0\2\0\0\0\3\0\x64\xab\xcd", 16), 0);
	assert_true(p.mptcp.data_ack == 5);
	assert_true(p.mptcp.data_sequence == 0x100000002);
	assert_int_equal(p.mptcp.subflow_sequence, 3);
	assert_int_equal(p.mptcp.data_length, 100);
	assert_int_equal(p.mptcp.dss_data_fin, 1);
	/* DSS: 32-bit ack alone */
	assert_int_equal(OPTIONS("\x1e\x08\x20\1\0\0\0\x07", 16), 0);
	assert_true(p.mptcp.data_ack == 7);
	assert_int_equal(p.mptcp.dss_mapping, 0);
	assert_int_equal(OPTIONS("\x1e\x08\x20\7\0\0\0\x07", 16), 1); /* a mapping that is not there */
	assert_int_equal(p.mptcp.dss_mapping, 0);
	assert_int_equal(OPTIONS("\x1e\x08\x31\1\1\2\3\4", 16), 0); /* ADD_ADDR echo */
	assert_int_equal(OPTIONS("\x1e\4\x40\1", 16), 0); /* REMOVE_ADDR */
	assert_int_equal(OPTIONS("\x1e\3\x51", 16), 0); /* MP_PRIO */
	assert_int_equal(p.mptcp.prio_backup, 1);
	assert_int_equal(OPTIONS("\x1e\x0c\x60\0dddddddd", 16), 0); /* MP_FAIL */
	assert_int_equal(OPTIONS("\x1e\x0c\x70\0kkkkkkkk", 16), 0); /* MP_FASTCLOSE */
	assert_int_equal(OPTIONS("\x1e\4\x80\1", 20), 0); /* MP_TCPRST */
	assert_int_equal(p.mptcp.seen, 1 << RW_MP_TCPRST);
	assert_int_equal(OPTIONS("\x1e\2", 16), 1);
}

#ifdef REWINDOW_BOTH_WAYS
/* The same record, read in the short way and in the long one, over what other packets may have left behind. */
static void check_both_ways(uint32_t link_type, const struct file *f)
{
	struct rw_packet quick, slow;
	memset(&quick, 0xff, sizeof quick);
	memset(&slow, 0, sizeof slow);
	enum rw_parse got = parse(link_type, f, (uint32_t)f->n + 100, &quick);
	struct rw_oddity_counts found = oddities;
	rw_long_way = 1;
	assert_int_equal(parse(link_type, f, (uint32_t)f->n + 100, &slow), got);
	rw_long_way = 0;
	for (int k = 0; k < RW_ODDITY_COUNT; k++)
		assert_int_equal(found.count[k], oddities.count[k]);
	if (got != RW_PARSE_TCP)
		return;
	size_t address = slow.family == 4 ? 4 : 16, always = offsetof(struct rw_packet, sequence);
	assert_memory_equal((uint8_t *)&quick + always, (uint8_t *)&slow + always,
			    offsetof(struct rw_packet, window_scale) - always);
	assert_memory_equal(quick.source, slow.source, address);
	assert_memory_equal(quick.destination, slow.destination, address);
	assert_int_equal(quick.source_port, slow.source_port);
	assert_int_equal(quick.destination_port, slow.destination_port);
	assert_int_equal(slow.family == 4 ? quick.identification : 0, slow.family == 4 ? slow.identification : 0);
	assert_int_equal(quick.ts_value, slow.ts_value);
	assert_int_equal(quick.ts_echo, slow.ts_echo);
	assert_int_equal(quick.overtaken, slow.overtaken);
	assert_int_equal(quick.mptcp.seen, slow.mptcp.seen);
	if (slow.has_window_scale)
		assert_int_equal(quick.window_scale, slow.window_scale);
	if (slow.option_mss)
		assert_int_equal(quick.mss, slow.mss);
	assert_memory_equal(quick.sack, slow.sack, slow.sack_count * sizeof *slow.sack);
}

/*
 * Plain records, and all that differ from them in one byte or end sooner: the short way takes those that are plain, and
 * leaves all others to the long one.
 */
static void plain_records_are_read_alike(void **state)
{
	(void)state;
	static const uint8_t timestamps[] = {1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8},
			     sacked[] = {1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2},
			     others[] = {2, 4, 5, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7};
	static const struct {
		const uint8_t *options;
		size_t bytes;
	} kind[] = {{NULL, 0}, {timestamps, sizeof timestamps}, {sacked, sizeof sacked}, {others, sizeof others}};
	for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
		struct segment s = {.from_client = 1,
				    .sequence = 0x01020304,
				    .ack = 0x05060708,
				    .flags = 0x18,
				    .payload = 100,
				    .options = kind[k].options,
				    .options_bytes = kind[k].bytes,
				    .ecn = 2};
		struct file f = {.n = 0};
		put(&f, "\2\2\2\2\2\2\4\4\4\4\4\4\x08\0", 14);
		f.n += ipv4_tcp(f.bytes + f.n, &s);
		size_t whole = f.n;
		for (uint32_t link_type = 0; link_type < 300; link_type++)
			check_both_ways(link_type, &f);
		for (size_t at = 0; at < whole; at++) {
			uint8_t was = f.bytes[at];
			for (int value = 0; value < 256; value++) {
				f.bytes[at] = (uint8_t)value;
				check_both_ways(1, &f);
			}
			f.bytes[at] = was;
			f.n = at;
			check_both_ways(1, &f);
			f.n = whole;
		}
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef REWINDOW_BOTH_WAYS
	    cmocka_unit_test(plain_records_are_read_alike),
#endif
	    cmocka_unit_test(link_layers),
	    cmocka_unit_test(tunnels),
	    cmocka_unit_test(fragmented_tunnels),
	    cmocka_unit_test(tunnels_in_tunnels_end),
	    cmocka_unit_test(tags_and_labels_end),
	    cmocka_unit_test(no_packets_in_tunnels),
	    cmocka_unit_test(aggregates),
	    cmocka_unit_test(unknown_link_types_are_counted),
	    cmocka_unit_test(ipv6_extension_headers),
	    cmocka_unit_test(ipv6_ends_are_those_of_tcp),
	    cmocka_unit_test(layers_without_ip_end),
	    cmocka_unit_test(encrypted_frames_are_none),
	    cmocka_unit_test(fragments_are_put_together),
	    cmocka_unit_test(a_header_in_fragments),
	    cmocka_unit_test(endless_extension_headers_end),
	    cmocka_unit_test(cyclic_extension_headers_end),
	    cmocka_unit_test(jumbograms),
	    cmocka_unit_test(tcp_options),
	    cmocka_unit_test(option_loops_end),
	    cmocka_unit_test(mptcp_options),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
