/* What a program on libpcap pays before it looks at a packet: pcap_loop, and 64 bytes of each packet. */
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdio.h>

#include "touch.h"

struct count {
	uint64_t packets, sum;
};

static void see(u_char *user, const struct pcap_pkthdr *header, const u_char *bytes)
{
	struct count *c = (struct count *)(void *)user;
	c->packets++;
	c->sum += touch(bytes, header->caplen);
}

int main(int argc, char **argv)
{
	char reason[PCAP_ERRBUF_SIZE];
	struct count c = {0};
	if (argc != 2) {
		fputs("usage: pcap_loop CAPTURE\n", stderr);
		return 2;
	}
	pcap_t *pcap = pcap_open_offline_with_tstamp_precision(argv[1], PCAP_TSTAMP_PRECISION_NANO, reason);
	if (!pcap) {
		fprintf(stderr, "%s\n", reason);
		return 1;
	}
	if (pcap_loop(pcap, -1, see, (u_char *)&c) < 0) {
		pcap_perror(pcap, argv[1]);
		return 1;
	}
	pcap_close(pcap);
	printf("packets=%" PRIu64 "\nsum=%" PRIx64 "\n", c.packets, c.sum);
	return 0;
}
