package natsacl_test

import (
	"fmt"

	"github.com/genbus/genbus/internal/subject"
)

// stealing lists attempts to take work or to settle messages held by others.
func stealing() (rows []attack) {
	for _, user := range tenantUsers {
		for stream, durable := range map[string]string{"GENBUS_WORK": "video-" + route, "GENBUS_REQUESTS": "intake-video"} {
			rows = append(rows,
				attack{user, "takes from " + stream, ask("$JS.API.CONSUMER.MSG.NEXT."+stream+"."+durable, ""), isRefused},
				attack{user, "makes a consumer of " + stream, ask("$JS.API.CONSUMER.CREATE."+stream+".thief", `{"stream_name":"`+stream+`","config":{"name":"thief"}}`), isRefused},
				attack{user, "changes the consumer of " + stream, ask("$JS.API.CONSUMER.CREATE."+stream+"."+durable, "{}"), isRefused},
				attack{user, "deletes the consumer of " + stream, ask("$JS.API.CONSUMER.DELETE."+stream+"."+durable, ""), isRefused},
				attack{user, "looks at the consumer of " + stream, ask("$JS.API.CONSUMER.INFO."+stream+"."+durable, ""), isRefused})
		}
		for _, word := range []string{"+ACK", "-NAK", "+TERM", "+WPI", "+NXT"} {
			rows = append(rows, attack{user, "says " + word + " to the victim's work", settleWith(word), isRefused})
		}
	}
	return append(rows, attack{witness + attacker, "says +TERM to the victim's work", settleWith("+TERM"), isSent})
}

// settleWith settles the victim's work item, which genbus holds.
func settleWith(word string) move {
	return func(a *attempt) string {
		if err := a.nc.Publish(a.work.Reply(), []byte(word)); err != nil {
			a.t.Fatal(err)
		}
		return a.outcome(isSent)
	}
}

// impersonating lists attempts to answer in place of genbus, or to answer other clients.
func impersonating() (rows []attack) {
	for _, user := range tenantUsers {
		for _, subj := range []string{
			"_INBOX.x", "_INBOX_globex-publisher.x", "_INBOX_globex-app.x", "_R_.x", "$SRV.PING", "$SRV.INFO.genbus", "$SRV.STATS.genbus",
		} {
			rows = append(rows, attack{user, "publishes on " + subj, send(subj), isRefused})
		}
		for _, subj := range []string{"genbus.call.>", "genbus.call.*.*", "genbus.call.video.globex", "genbus.get.video.acme", "genbus.content.acme", "$SRV.PING", "$SRV.>"} {
			rows = append(rows, attack{user, "serves " + subj, listen(subj), isRefused})
		}
	}
	return rows
}

// wholeAccount lists what even a user without any limits in the tenant's account cannot do while
// its only streams are the two copies. TestWhoMayStoreMayForge covers the rest.
func wholeAccount() (rows []attack) {
	me := witness + attacker
	theirs := names.Task(subject.Video, victim, job)
	for _, subj := range []string{
		theirs, names.Done(subject.Video, victim, "failed", job), names.Chunk(victim, job), names.LiveTask(subject.Video, victim, job),
		names.WorkItem(subject.Video, route, victim, job+"2"), names.DeadLetter(subject.Video, victim, job), names.RejectedDeadLetter(subject.Video, victim, job), names.LiveChunk(victim, job),
		"genbus.copy." + victim, "$O." + names.Bodies(victim) + ".C.x", "$JS.FC.GENBUS_TASKS." + victim + ".x", "_R_.x",
	} {
		rows = append(rows, attack{me, "publishes on " + subj, send(subj), isSent})
	}
	for _, subj := range append(requests(subject.Video, victim), names.Request(subject.Video, victim), "$SRV.INFO.genbus", "genbus.origin.CONSUMER.RESET.GENBUS_TASKS."+victim) {
		rows = append(rows, attack{me, "asks " + subj, ask(subj, ""), noResponder})
	}
	for _, subj := range []string{">", "genbus.>", "genbus.live.task.>", "genbus.live.chunk.>", "genbus.call.>", "_INBOX.>", "_R_.>", "$SRV.>", "genbus.copy.>", "$JS.ACK.>"} {
		rows = append(rows, attack{me, "listens to " + subj, listen(subj), isListening})
	}
	for _, name := range genbusOnly {
		for _, api := range []string{"STREAM.INFO", "STREAM.DELETE", "STREAM.PURGE", "STREAM.SNAPSHOT"} {
			rows = append(rows, attack{me, "asks " + api + " of " + name, ask("$JS.API."+api+"."+name, snapshotBody(api)), "error 10059"})
		}
		rows = append(rows, attack{me, "makes a consumer of " + name, ask("$JS.API.CONSUMER.CREATE."+name+".thief", `{"stream_name":"`+name+`","config":{"name":"thief"}}`), "error 10059"})
	}
	return append(rows,
		attack{me, "lists streams", ask("$JS.API.STREAM.LIST", ""), isAnswered},
		attack{me, "lists the subjects of the log", ask("$JS.API.STREAM.INFO.GENBUS_TASKS", `{"subjects_filter":">"}`), isAnswered},
		attack{me, "reads directly, by a body", ask("$JS.API.DIRECT.GET.GENBUS_TASKS", fmt.Sprintf(`{"last_by_subj":%q}`, theirs)), "status 404"},
		attack{me, "takes work", ask("$JS.API.CONSUMER.MSG.NEXT.GENBUS_WORK.video-"+route, ""), noResponder},
		attack{me, "has its own copy sent again", ask("genbus.origin.CONSUMER.RESET.GENBUS_TASKS.acme", `{"seq":1}`), isAnswered},
		attack{me, "confirms its own copy", send("$JS.FC.GENBUS_TASKS.acme.x"), isSent},
		attack{me, "makes another stream", ask("$JS.API.STREAM.CREATE.MORE", `{"name":"MORE","subjects":["more"],"storage":"file","retention":"limits","discard":"old","num_replicas":1,"max_bytes":1024}`), "error 10027"},
		attack{me, "wants the leader gone", ask("$JS.API.META.LEADER.STEPDOWN", ""), isSilence},
		attack{me, "wants the account of genbus purged", ask("$JS.API.ACCOUNT.PURGE.GENBUS", ""), isSilence},
		attack{me, "asks the servers", ask("$SYS.REQ.SERVER.PING", ""), noResponder},
	)
}

func snapshotBody(api string) string {
	if api == "STREAM.SNAPSHOT" {
		return `{"deliver_subject":"spy"}`
	}
	return ""
}

// service lists actions that the service's own user cannot perform.
func service() (rows []attack) {
	for _, subj := range append(requests(subject.Video, victim),
		names.Request(subject.Video, victim), names.LiveTask(subject.Video, victim, job), names.LiveChunk(victim, job),
		"genbus.copy."+victim, "_INBOX.x", "_R_.x", "$SRV.PING", "$JS.ACK.GENBUS_TASKS.globex.1.1.1.1.0",
	) {
		rows = append(rows, attack{"service", "publishes on " + subj, send(subj), isRefused})
	}
	for _, subj := range []string{">", "genbus.>", "genbus.request.>", "genbus.task.>", "genbus.work.>", "genbus.wait.>", "genbus.call.*.*", "genbus.get.*.*", "genbus.content.*", "$JS.>", "$SYS.>"} {
		rows = append(rows, attack{"service", "listens to " + subj, listen(subj), isRefused})
	}
	for _, name := range append(genbusOnly, "GENBUS_TASKS", "GENBUS_CHUNKS") {
		for _, api := range []string{"STREAM.DELETE", "STREAM.SNAPSHOT", "STREAM.RESTORE", "CONSUMER.LIST", "CONSUMER.NAMES"} {
			if api == "CONSUMER.LIST" && (name == "GENBUS_WORK" || name == "GENBUS_WAIT") {
				continue // allowed: the service counts the jobs of its routes this way
			}
			rows = append(rows, attack{"service", "asks " + api + " of " + name, ask("$JS.API."+api+"."+name, ""), isRefused})
		}
	}
	for _, subj := range []string{
		"STREAM.PURGE.GENBUS_REQUESTS", "STREAM.PURGE.GENBUS_WORK", "STREAM.PURGE.GENBUS_WAIT", "STREAM.PURGE.GENBUS_DEAD", "STREAM.PURGE.GENBUS_REJECTED", "STREAM.PURGE.GENBUS_USAGE", "STREAM.PURGE.GENBUS_OPS",
		"STREAM.MSG.DELETE.GENBUS_REQUESTS", "STREAM.MSG.DELETE.GENBUS_USAGE", "STREAM.MSG.GET.GENBUS_REQUESTS",
		"CONSUMER.CREATE.GENBUS_DEAD.spy", "CONSUMER.CREATE.GENBUS_TASKS.spy", "CONSUMER.CREATE.GENBUS_TASKS.spy.genbus.done.>",
		"CONSUMER.CREATE.GENBUS_USAGE.spy", "CONSUMER.DELETE.GENBUS_WORK.video-main", "CONSUMER.DELETE.GENBUS_REQUESTS.intake-video", "CONSUMER.PAUSE.GENBUS_REQUESTS.intake-video",
		"STREAM.LIST", "META.LEADER.STEPDOWN", "ACCOUNT.PURGE.globex",
	} {
		rows = append(rows, attack{"service", "asks $JS.API." + subj, ask("$JS.API."+subj, ""), isRefused})
	}
	return rows
}
