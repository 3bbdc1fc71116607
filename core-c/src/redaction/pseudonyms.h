/* Addresses -> other addresses, so that two addresses share as long a prefix as before, and nobody without the key can go back. */
#ifndef RW_PSEUDONYMS_H
#define RW_PSEUDONYMS_H

#include <stdint.h>

#define RW_KEY_BYTES 16

struct rw_pseudonyms;

/* Null: out of memory. */
struct rw_pseudonyms *rw_pseudonyms_open(const uint8_t key[RW_KEY_BYTES]);
void rw_pseudonyms_close(struct rw_pseudonyms *p);
/* family: 4 or 6; an address has 4 or 16 bytes. */
void rw_pseudonym(struct rw_pseudonyms *p, unsigned family, const uint8_t *address, uint8_t *pseudonym);

/* SipHash-2-4 of n bytes. */
uint64_t rw_siphash(const uint8_t key[RW_KEY_BYTES], const uint8_t *bytes, uint32_t n);

#endif
