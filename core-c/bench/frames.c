#include "frames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { START_S = 1700000000 }; /* any date: nothing depends on today */

void die(const char *reason)
{
	fprintf(stderr, "generate: %s\n", reason);
	exit(1);
}

struct output *output_open(const char *path, uint32_t tick_ns)
{
	static struct output o;
	o.fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666) : STDOUT_FILENO;
	if (o.fd < 0)
		die(strerror(errno));
	o.tick_ns = tick_ns;
	const uint32_t header[6] = {tick_ns == 1 ? 0xa1b23c4d : 0xa1b2c3d4, 2 | 4 << 16, 0, 0, SNAP_BYTES, 1};
	memcpy(o.buffer, header, sizeof header);
	o.used = o.bytes = sizeof header;
	o.clock_ns = START_S * 1000000000ll;
	return &o;
}

void output_flush(struct output *o)
{
	for (size_t done = 0; done < o->used;) {
		ssize_t n = write(o->fd, o->buffer + done, o->used - done);
		if (n < 0 && errno != EINTR)
			die(strerror(errno));
		done += n > 0 ? (size_t)n : 0;
	}
	o->used = 0;
}

void frame_shape(struct frame *f, uint32_t options, uint32_t payload)
{
	uint32_t headers = HEADER_BYTES + TIMESTAMPS_BYTES + options;
	f->wire = headers + payload;
	f->captured = f->wire < SNAP_BYTES ? f->wire : SNAP_BYTES;
	f->length = htobe16((uint16_t)(f->wire - 14));
	f->header_words = (uint8_t)((headers - 34) / 4 << 4);
}

void frame_template(struct frame *f, const struct address *a, uint8_t flags)
{
	*f = (struct frame){
	    .ethernet = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0},
	    .version = 0x45,
	    .fragment = htobe16(0x4000),
	    .ttl = 64,
	    .protocol = 6,
	    .source = htobe32(a->source),
	    .destination = htobe32(a->destination),
	    .source_port = htobe16(a->source_port),
	    .destination_port = htobe16(a->destination_port),
	    .flags = flags,
	    .window = htobe16(WINDOW),
	    .before_timestamps = {1, 1, 8, 10},
	};
	frame_shape(f, 0, 0);
}

void frame_syn_options(struct frame *f, uint16_t mss)
{
	const uint8_t options[SYN_OPTIONS_BYTES] = {2, 4, (uint8_t)(mss >> 8), (uint8_t)mss, 1, 1, 4, 2, 1,
						    3, 3, WINDOW_SCALE};
	memcpy(f->options, options, sizeof options);
}
