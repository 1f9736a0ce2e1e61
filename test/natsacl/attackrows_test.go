package natsacl_test

import (
	"fmt"
	"strings"

	"github.com/nats-io/nuid"

	"github.com/genbus/genbus/internal/subject"
)

const (
	publisher  = attacker + "-publisher"
	subscriber = attacker + "-subscriber"
	app        = attacker + "-app"
	keeper     = attacker + "-administrator"
)

var tenantUsers = []string{publisher, subscriber, app}

// genbusOnly lists the streams that tenants have no copy of.
var genbusOnly = []string{"GENBUS_REQUESTS", "GENBUS_WORK", "GENBUS_WAIT", "GENBUS_DEAD", "GENBUS_REJECTED", "GENBUS_USAGE", "GENBUS_OPS", "OBJ_GENBUS_BODIES_globex"}

// forging lists attempts to publish what only genbus or another tenant may publish.
func forging() (rows []attack) {
	for _, tenant := range []string{victim, attacker} {
		id := jobOf(tenant)
		for _, subj := range []string{
			names.Task(subject.Video, tenant, id), names.Done(subject.Video, tenant, "failed", id), names.Chunk(tenant, id),
			names.LiveTask(subject.Video, tenant, id), names.LiveChunk(tenant, id),
			names.WorkItem(subject.Video, route, tenant, id+"2"), names.WaitItem(subject.Video, route, tenant, id+"2"),
			names.DeadLetter(subject.Video, tenant, id), names.RejectedDeadLetter(subject.Video, tenant, "0"), names.Usage(subject.Video, tenant, id),
			"genbus.copy." + tenant, "genbus.origin.CONSUMER.RESET.GENBUS_TASKS." + tenant, "$JS.FC.GENBUS_TASKS." + tenant + ".x",
			"$O." + names.Bodies(tenant) + ".C.x", "$O." + names.Bodies(tenant) + ".M.x", names.PeerNotification(subject.AnyWriter), names.Dispatch(), names.IndexKeepers(), names.Index("x"),
		} {
			for _, user := range append(tenantUsers, keeper) {
				rows = append(rows, attack{user, "publishes on " + subj, send(subj), isRefused})
			}
		}
	}
	for _, kind := range subject.Kinds {
		for _, user := range tenantUsers {
			rows = append(rows,
				attack{user, "sends a request of the victim, " + string(kind), send(names.Request(kind, victim)), isRefused},
				attack{user, "sends a request as nobody, " + string(kind), send(names.Request(kind, "*")), isRefused})
			for _, subj := range requests(kind, victim) {
				rows = append(rows, attack{user, "asks as the victim on " + subj, ask(subj, "{}"), isRefused})
			}
		}
		rows = append(rows,
			attack{subscriber, "sends a request of its own, " + string(kind), send(names.Request(kind, attacker)), isRefused},
			attack{subscriber, "calls, " + string(kind), ask(names.Call(kind, attacker), "{}"), isRefused},
			attack{subscriber, "cancels, " + string(kind), ask(names.Cancel(kind, attacker), "{}"), isRefused},
			attack{publisher, "reads a job, " + string(kind), ask(names.Get(kind, attacker), "{}"), isRefused},
			attack{publisher, "lists jobs, " + string(kind), ask(names.List(kind, attacker), "{}"), isRefused},
			attack{publisher, "downloads, " + string(kind), ask(names.Content(attacker), "{}"), isRefused},
			attack{keeper, "sends a request of its own, " + string(kind), send(names.Request(kind, attacker)), isRefused})
	}
	return rows
}

// headers lists JetStream headers on a request, the only stored subject that a publisher may
// publish to.
func headers() (rows []attack) {
	own, theirs := names.Request(subject.Video, attacker), names.Request(subject.Video, victim)
	for _, row := range []struct {
		name   string
		want   string
		header []string
	}{
		{"rolls up the whole stream", "error 10111", []string{"Nats-Rollup", "all"}},
		{"rolls up a subject", "error 10111", []string{"Nats-Rollup", "sub"}},
		{"lets the message expire", "error 10166", []string{"Nats-TTL", "1s"}},
		{"keeps the message for ever", "error 10166", []string{"Nats-TTL", "never"}},
		{"schedules a message of the victim", "error 10188", []string{"Nats-Schedule", "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target", theirs}},
		{"schedules a message for ever", "error 10188", []string{"Nats-Schedule", "@every 1s", "Nats-Schedule-Target", theirs, "Nats-Schedule-TTL", "1s"}},
		{"schedules the victim's own request", "error 10188", []string{"Nats-Schedule", "@every 1s", "Nats-Schedule-Target", own, "Nats-Schedule-Source", theirs}},
		{"cancels a schedule", "error 10188", []string{"Nats-Schedule-Next", "purge", "Nats-Scheduler", theirs}},
		{"begins an atomic batch", "error 10174", []string{"Nats-Batch-Id", "b", "Nats-Batch-Sequence", "1"}},
		{"commits an atomic batch", "error 10174", []string{"Nats-Batch-Id", "b", "Nats-Batch-Sequence", "1", "Nats-Batch-Commit", "1"}},
		{"counts", "error 10168", []string{"Nats-Incr", "+1"}},
		{"says that the message comes from another stream", "error 10227", []string{"Nats-Stream-Source", "GENBUS_TASKS 1 > > " + names.Task(subject.Video, victim, job)}},
		{"expects another stream", "error 10060", []string{"Nats-Expected-Stream", "GENBUS_TASKS"}},
		{"expects a sequence of the stream", "error 10071", []string{"Nats-Expected-Last-Sequence", "999"}},
		{"expects a sequence of its subject", "error 10071", []string{"Nats-Expected-Last-Subject-Sequence", "999"}},
		{"expects a sequence of the victim's subject", "error 10071", []string{"Nats-Expected-Last-Subject-Sequence", "999", "Nats-Expected-Last-Subject-Sequence-Subject", theirs}},
		{"expects a message id", "error 10070", []string{"Nats-Expected-Last-Msg-Id", "x"}},
		{"wants a level of the API", isAnswered, []string{"Nats-Required-Api-Level", "99"}},
		{"has the message traced to the victim's log", isRefused, []string{"Nats-Trace-Dest", names.Task(subject.Video, victim, job)}},
		{"says that the message was deleted", isAnswered, []string{"Nats-Marker-Reason", "Purge", "KV-Operation", "PURGE"}},
		{"says who it is", isAnswered, []string{"Nats-Request-Info", `{"acc":"` + victim + `"}`}},
	} {
		for _, user := range []string{publisher, app} {
			rows = append(rows, attack{user, row.name, ask(own, "{}", row.header...), row.want})
		}
	}
	return rows
}

// answers lists requests that name a reply subject of someone else. NATS checks no permission for
// it.
func answers() (rows []attack) {
	targets := []string{
		names.Request(subject.Video, attacker), names.Call(subject.Video, attacker), "genbus.copy." + attacker, "genbus.origin.CONSUMER.RESET.GENBUS_TASKS." + attacker,
		names.Task(subject.Video, victim, job), names.Task(subject.Video, attacker, "video_2"), names.Done(subject.Video, victim, "failed", job),
		names.LiveTask(subject.Video, victim, job), names.LiveChunk(victim, job), names.Chunk(victim, job),
		names.WorkItem(subject.Video, route, victim, job+"2"), names.WaitItem(subject.Video, route, victim, job+"2"),
		names.DeadLetter(subject.Video, victim, job), names.RejectedDeadLetter(subject.Video, victim, "0"), names.Usage(subject.Video, victim, job), names.Request(subject.Video, victim), names.Call(subject.Video, victim), "_INBOX." + victim, "_INBOX_" + victim + "-publisher.x",
		"$JS.API.STREAM.DELETE.GENBUS_TASKS", "$JS.API.STREAM.PURGE.GENBUS_WORK", "$JS.API.CONSUMER.MSG.NEXT.GENBUS_WORK.video-" + route,
		"$JS.API.CONSUMER.DELETE.GENBUS_WORK.video-" + route,
	}
	for _, target := range targets {
		delivered := isAnswered
		if strings.HasPrefix(target, "$JS.") {
			delivered = anything // the previous row may have deleted the attacker's own copy
		}
		for _, user := range []string{publisher, app} {
			rows = append(rows,
				attack{user, "has the inbox answer to " + target, sendFor(target, names.Request(subject.Video, attacker)), isSent},
				attack{user, "has genbus answer to " + target, sendFor(target, names.Call(subject.Video, attacker)), isSent})
		}
		for _, user := range []string{subscriber, app} {
			rows = append(rows,
				attack{user, "has a job sent to " + target, sendFor(target, names.Get(subject.Video, attacker)), isSent},
				attack{user, "has content sent to " + target, sendFor(target, names.Content(attacker)), isSent})
		}
		for _, user := range []string{subscriber, app, witness + attacker} {
			rows = append(rows,
				attack{user, "has a read answered to " + target, sendFor(target, "$JS.API.DIRECT.GET.GENBUS_TASKS."+names.Task(subject.Video, attacker, jobOf(attacker))), isSent},
				attack{user, "has its events delivered to " + target, deliver(target), delivered},
				attack{user, "pulls its events for " + target, pullFor(target), isSent})
		}
	}
	for _, reply := range []string{"_R_.x.y", "$JS.ACK.GENBUS_WORK.video-" + route + ".1.1.1.1.0", "_GR_.x"} {
		rows = append(rows, attack{publisher, "wants the answer on " + reply, sendFor(reply, names.Request(subject.Video, attacker)), isRefused})
	}
	return rows
}

const spyConfig = `"ack_policy":"none","filter_subject":"genbus.task.>","inactive_threshold":1000000000`

// deliver creates a push consumer that delivers to target.
func deliver(target string) move {
	return func(a *attempt) string {
		name := nuid.Next()
		return ask("$JS.API.CONSUMER.CREATE.GENBUS_TASKS."+name+".genbus.task.>",
			fmt.Sprintf(`{"stream_name":"GENBUS_TASKS","config":{"name":%q,"deliver_subject":%q,%s}}`, name, target, spyConfig))(a)
	}
}

// pullFor creates a consumer and pulls its messages to target.
func pullFor(target string) move {
	return func(a *attempt) string {
		name := nuid.Next()
		ask("$JS.API.CONSUMER.CREATE.GENBUS_TASKS."+name+".genbus.task.>",
			fmt.Sprintf(`{"stream_name":"GENBUS_TASKS","config":{"name":%q,%s}}`, name, spyConfig))(a)
		return sendFor(target, "$JS.API.CONSUMER.MSG.NEXT.GENBUS_TASKS."+name)(a)
	}
}

// reading lists attempts to read the messages of others.
func reading() (rows []attack) {
	theirs, last := names.Task(subject.Video, victim, job), fmt.Sprintf(`{"last_by_subj":%q}`, names.Task(subject.Video, victim, job))
	for _, user := range []string{subscriber, app} {
		rows = append(rows,
			attack{user, "reads the last event", ask("$JS.API.STREAM.MSG.GET.GENBUS_TASKS", last), "error 10037"},
			attack{user, "reads the next event", ask("$JS.API.STREAM.MSG.GET.GENBUS_TASKS", fmt.Sprintf(`{"seq":1,"next_by_subj":%q}`, theirs)), "error 10037"},
			attack{user, "reads by sequence", ask("$JS.API.STREAM.MSG.GET.GENBUS_TASKS", `{"seq":1}`), isAnswered},
			attack{user, "reads directly", ask("$JS.API.DIRECT.GET.GENBUS_TASKS."+theirs, ""), "status 404"},
			attack{user, "reads directly, by a pattern", ask("$JS.API.DIRECT.GET.GENBUS_TASKS.genbus.task.video.*.*", ""), isAnswered},
			attack{user, "reads directly, by a body", ask("$JS.API.DIRECT.GET.GENBUS_TASKS", last), isRefused},
			attack{user, "reads chunks directly", ask("$JS.API.DIRECT.GET.GENBUS_CHUNKS."+names.Chunk(victim, job), ""), "status 404"},
			attack{user, "reads the last chunk", ask("$JS.API.STREAM.MSG.GET.GENBUS_CHUNKS", fmt.Sprintf(`{"last_by_subj":%q}`, names.Chunk(victim, job))), "error 10037"},
			attack{user, "lists the subjects of the log", ask("$JS.API.STREAM.INFO.GENBUS_TASKS", `{"subjects_filter":">"}`), isAnswered},
			attack{user, "lists the subjects of the chunks", ask("$JS.API.STREAM.INFO.GENBUS_CHUNKS", `{"subjects_filter":">"}`), isAnswered},
			attack{user, "reads all events", readAll("GENBUS_TASKS", `"deliver_policy":"all"`), "2 messages"},
			attack{user, "reads all chunks", readAll("GENBUS_CHUNKS", `"deliver_policy":"all"`), "1 messages"},
			attack{user, "reads the victim's events", readAll("GENBUS_TASKS", `"filter_subjects":["genbus.task.*.globex.*","genbus.done.*.globex.*.*"]`), "0 messages"},
			attack{user, "reads the victim's chunks", readAll("GENBUS_CHUNKS", `"filter_subjects":["genbus.chunk.globex.*","genbus.chunk.nobody.*"]`), "0 messages"},
			attack{user, "listens to the victim's live events", listen("genbus.live.task.*.globex.*"), isRefused},
			attack{user, "listens to all live events", listen("genbus.live.task.>"), isRefused},
			attack{user, "listens to the victim's live chunks", listen("genbus.live.chunk.globex.*"), isRefused},
			attack{user, "listens to its own live events", listen("genbus.live.task.*.acme.*"), isListening})
	}
	for _, user := range tenantUsers {
		for _, subj := range []string{
			">", "*", "*.>", "_INBOX_globex-publisher.>", "_R_.>", "$SYS.>", "$SRV.>", "$JS.>", "$JS.EVENT.ADVISORY.>", "$O.>", "$KV.>",
			"genbus.>", "genbus.request.>", "genbus.task.>", "genbus.done.>", "genbus.chunk.>", "genbus.work.>", "genbus.wait.>", "genbus.dead.>",
			"genbus.usage.>", "genbus.copy.>", names.PeerNotification("*"), names.Dispatch(), names.IndexKeepers(), names.Index("*"),
			"genbus.copy.acme", "genbus.call.video.acme",
		} {
			rows = append(rows, attack{user, "listens to " + subj, listen(subj), isRefused})
		}
		for _, name := range append(genbusOnly, "OBJ_GENBUS_BODIES_acme") {
			for _, api := range []string{"STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET", "CONSUMER.CREATE", "CONSUMER.LIST", "CONSUMER.NAMES"} {
				rows = append(rows, attack{user, "asks " + api + " of " + name, ask("$JS.API."+api+"."+name, `{"seq":1}`), isRefused})
			}
		}
		rows = append(rows,
			attack{user, "lists streams", ask("$JS.API.STREAM.LIST", ""), isRefused},
			attack{user, "names streams", ask("$JS.API.STREAM.NAMES", ""), isRefused},
			attack{user, "asks for the account", ask("$JS.API.INFO", ""), isRefused})
	}
	for _, user := range []string{publisher, subscriber} {
		rows = append(rows, attack{user, "listens to all inboxes", listen("_INBOX.>"), isRefused})
	}
	return append(rows, attack{app, "listens to all inboxes", listen("_INBOX.>"), isListening})
}

// breaking lists attempts to delete, change or empty streams and consumers.
func breaking() (rows []attack) {
	for _, user := range tenantUsers {
		for _, name := range append(genbusOnly, "GENBUS_TASKS", "GENBUS_CHUNKS") {
			for _, api := range []string{
				"STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.PURGE", "STREAM.MSG.DELETE", "STREAM.SNAPSHOT", "STREAM.RESTORE",
				"STREAM.LEADER.STEPDOWN", "STREAM.PEER.REMOVE", "CONSUMER.DURABLE.CREATE", "CONSUMER.PAUSE", "CONSUMER.RESET", "CONSUMER.UNPIN",
				"CONSUMER.LEADER.STEPDOWN",
			} {
				subj := "$JS.API." + api + "." + name
				if strings.HasPrefix(api, "CONSUMER.") {
					subj += ".video-" + route
				}
				rows = append(rows, attack{user, "asks " + subj, ask(subj, ""), isRefused})
			}
		}
		for _, subj := range []string{
			"$JS.API.META.LEADER.STEPDOWN", "$JS.API.SERVER.REMOVE", "$JS.API.ACCOUNT.PURGE.GENBUS", "$JS.API.META.RESCUE", "$SYS.REQ.SERVER.PING",
			"$SYS.REQ.ACCOUNT.GENBUS.CONNZ", "$SYS.REQ.SERVER.x.RELOAD",
		} {
			rows = append(rows, attack{user, "asks " + subj, ask(subj, ""), isRefused})
		}
	}
	return rows
}
