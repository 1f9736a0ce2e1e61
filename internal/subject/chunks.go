package subject

// Chunks names the stream GENBUS_CHUNKS, which holds the chunks of streamed chats.
func (s Space) Chunks() string { return s.stream + "_CHUNKS" }

// ChunkPattern matches every chat's chunks: genbus.chunk.>.
func (s Space) ChunkPattern() string { return s.join("chunk", ">") }

// Chunk is the subject of one chat's chunks: genbus.chunk.<tenant>.<id>.
func (s Space) Chunk(tenant, id string) string { return s.join("chunk", tenant, id) }

// LiveChunkPattern matches the republished chunks of all chats: genbus.live.chunk.>.
func (s Space) LiveChunkPattern() string { return s.join("live", "chunk", ">") }

// LiveChunk is the subject of one chat's republished chunks: genbus.live.chunk.<tenant>.<id>.
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

// UploadPrefix is the prefix of the object names of requests that publishers upload because they
// are larger than a message.
const UploadPrefix = "upload-"

// Bodies names a tenant's object store, for bodies too large for a message. Bucket names allow the
// same characters as tokens.
func (s Space) Bodies(tenant string) string { return s.stream + "_BODIES_" + tenant }
