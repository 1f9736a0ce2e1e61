package grpcapi

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/content"
)

// downloadPiece is the maximum number of data bytes in one message of a download. With its framing,
// such a message fits into gRPC's pooled buffers of 32 KiB. The next larger buffer would cost a
// megabyte per reader.
const downloadPiece = 32<<10 - 512

// DownloadVideo sends a file in pieces.
func (s videoService) DownloadVideo(m *genbusv1.DownloadVideoRequest, out grpc.ServerStreamingServer[genbusv1.DownloadVideoResponse]) error {
	ctx := out.Context()
	part, err := s.core.Content.Part(ctx, callOf(ctx).tenant, m)
	if err != nil {
		return err
	}
	defer func() { _ = part.Body.Close() }()
	setJobID(ctx, m.GetId())
	return send(s.log, s.core.WriteTimeout, func(sent func(func() error) error) error {
		return sendPieces(part, func(piece *genbusv1.DownloadVideoResponse) error {
			return sent(func() error { return out.Send(piece) })
		})
	})
}

// sendPieces sends a part in messages, of which the first describes the file.
func sendPieces(part content.Part, send func(*genbusv1.DownloadVideoResponse) error) error {
	piece := &genbusv1.DownloadVideoResponse{ContentType: part.Type, Size: part.Size, Offset: part.Offset}
	for first := true; ; first = false {
		// Use a new buffer each time because gRPC may still hold the previous one.
		buf := make([]byte, downloadPiece)
		n, err := part.Next(buf)
		over := errors.Is(err, io.EOF)
		if err != nil && !over {
			return err
		}
		if n > 0 || first {
			piece.Data = buf[:n]
			if sendErr := send(piece); sendErr != nil {
				return sendErr
			}
		}
		if over {
			return nil
		}
		piece = &genbusv1.DownloadVideoResponse{}
	}
}
