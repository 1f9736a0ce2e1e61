package grpcapi

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// downloadPiece is the maximum number of data bytes in one message of a download. With its framing,
// such a message fits into gRPC's pooled buffers of 32 KiB. The next larger buffer would cost a
// megabyte per reader.
const downloadPiece = 32<<10 - 512

// DownloadVideo sends a file in pieces.
func (s videoService) DownloadVideo(m *genbusv1.DownloadVideoRequest, out grpc.ServerStreamingServer[genbusv1.DownloadVideoResponse]) error {
	if m.GetOffset() < 0 || m.GetLength() < 0 {
		return errcode.Invalid([]errcode.Violation{{Field: "offset", Description: "and length must not be negative"}})
	}
	ctx := out.Context()
	name := callOf(ctx).name(subject.Video, m.GetId())
	file, err := s.core.Content.Open(ctx, name, int(m.GetIndex()), content.Request{Range: byteRange(m)})
	if err != nil {
		return err
	}
	defer func() { _ = file.Body.Close() }()
	first, err := firstPiece(file, m)
	if err != nil {
		return err
	}
	setJobID(ctx, name.ID)
	return send(s.log, s.core.WriteTimeout, func(sent func(func() error) error) error {
		return sendPieces(file.Body, first, func(piece *genbusv1.DownloadVideoResponse) error {
			return sent(func() error { return out.Send(piece) })
		})
	})
}

// byteRange returns the requested part as an HTTP range, or an empty string for the whole file.
func byteRange(m *genbusv1.DownloadVideoRequest) string {
	switch {
	case m.GetLength() > math.MaxInt64-m.GetOffset(): // the sum would overflow, and no file is that long
		return fmt.Sprintf("bytes=%d-", m.GetOffset())
	case m.GetLength() > 0:
		return fmt.Sprintf("bytes=%d-%d", m.GetOffset(), m.GetOffset()+m.GetLength()-1)
	case m.GetOffset() > 0:
		return fmt.Sprintf("bytes=%d-", m.GetOffset())
	default:
		return ""
	}
}

// firstPiece returns the first message, without data. It describes the file.
func firstPiece(f *content.File, m *genbusv1.DownloadVideoRequest) (*genbusv1.DownloadVideoResponse, error) {
	out := &genbusv1.DownloadVideoResponse{ContentType: f.Type, Size: f.Length}
	from, size, ranged := strings.Cut(strings.TrimPrefix(f.Range, "bytes "), "/")
	if f.Status == http.StatusRequestedRangeNotSatisfiable {
		return nil, beyondFile(m, size)
	}
	if !ranged {
		return out, nil
	}
	out.Size = -1
	if n, err := strconv.ParseInt(size, 10, 64); err == nil {
		out.Size = n
	}
	start, _, _ := strings.Cut(from, "-")
	n, err := strconv.ParseInt(start, 10, 64)
	if err != nil {
		return nil, errcode.New(errcode.ContentUnavailable, "the upstream sent an unidentified part of the file")
	}
	out.Offset = n
	return out, nil
}

// beyondFile returns the error for a range outside the file. size is empty if the upstream did not
// report it.
func beyondFile(m *genbusv1.DownloadVideoRequest, size string) error {
	text := fmt.Sprintf("%d is beyond the file", m.GetOffset())
	if size != "" {
		text += ", which has " + size + " bytes"
	}
	return errcode.Invalid([]errcode.Violation{{Field: "offset", Description: text}})
}

func sendPieces(from io.Reader, piece *genbusv1.DownloadVideoResponse, send func(*genbusv1.DownloadVideoResponse) error) error {
	for first := true; ; first = false {
		// Use a new buffer each time because gRPC may still hold the previous one.
		buf := make([]byte, downloadPiece)
		n, err := fillPiece(from, buf)
		over := errors.Is(err, io.EOF)
		if err != nil && !over {
			return errcode.New(errcode.ContentUnavailable, "the file was cut off: %w", err)
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

// fillPiece reads until the buffer is full or a read fails. It returns the read error unchanged.
// With io.ReadFull, callers could not tell the end of the file from an interruption.
func fillPiece(from io.Reader, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		m, err := from.Read(buf[n:])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
