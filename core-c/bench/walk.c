/* The least that reading a capture can cost: record headers in mapped memory, and 64 bytes of each packet. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "touch.h"

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: walk CAPTURE\n", stderr);
		return 2;
	}
	struct stat st;
	int fd = open(argv[1], O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0) {
		perror(argv[1]);
		return 1;
	}
	size_t n = (size_t)st.st_size;
	const uint8_t *file = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	uint64_t packets = 0, sum = 0;
	uint32_t header[4]; /* seconds, nanoseconds, captured, on the wire */
	for (size_t at = 24; at + sizeof header <= n; packets++) {
		memcpy(header, file + at, sizeof header);
		at += sizeof header;
		if (header[2] > n - at)
			break;
		sum += touch(file + at, header[2]);
		at += header[2];
	}
	printf("packets=%" PRIu64 "\nsum=%" PRIx64 "\n", packets, sum);
	return 0;
}
