package subject

// Chunks is the stream GENBUS_CHUNKS: streamed chat chunks.
func (s Space) Chunks() string { return s.stream + "_CHUNKS" }

// ChunkPattern is every chat's chunks: genbus.chunk.>.
func (s Space) ChunkPattern() string { return s.join("chunk", ">") }

// Chunk is the subject of one chat's chunks: genbus.chunk.<tenant>.<id>.
func (s Space) Chunk(tenant, id string) string { return s.join("chunk", tenant, id) }

// LiveChunkPattern is where the chunks of all chats are republished:
// genbus.live.chunk.>.
func (s Space) LiveChunkPattern() string { return s.join("live", "chunk", ">") }

// LiveChunk is where the chunks of one chat are republished:
// genbus.live.chunk.<tenant>.<id>.
func (s Space) LiveChunk(tenant, id string) string { return s.join("live", "chunk", tenant, id) }

// ParseChunk is the inverse of Chunk.
func (s Space) ParseChunk(subject string) (tenant, id string, err error) {
	return s.parseChunk(subject, "chunk")
}

// ParseLiveChunk is the inverse of LiveChunk.
func (s Space) ParseLiveChunk(subject string) (tenant, id string, err error) {
	return s.parseChunk(subject, "live.chunk")
}

func (s Space) parseChunk(subject, word string) (tenant, id string, err error) {
	t, err := s.split(subject, word, 2)
	if err != nil {
		return "", "", err
	}
	return t[0], t[1], nil
}

// UploadPrefix begins the names of requests that their publishers have put into the
// object store because they are larger than a message.
const UploadPrefix = "upload-"

// Bodies is the object store of one tenant, for bodies that are too large for a
// message. Bucket names take the same characters as tokens.
func (s Space) Bodies(tenant string) string { return s.stream + "_BODIES_" + tenant }
