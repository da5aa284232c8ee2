package record

// Murmur2 is the hash of Kafka's default partitioner (seed 0x9747b28c), bit for bit.
func Murmur2(key []byte) uint32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// Partition is Kafka's default partition of a present key among n partitions.
func Partition(key []byte, n int32) int32 { return int32(Murmur2(key)&0x7fffffff) % n }
