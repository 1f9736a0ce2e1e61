package docs_test

// Tests that show several things.
const (
	everyWay   = "cmd/service TestEveryProtocolByEveryWayIn"
	videoWays  = "cmd/service TestAVideoByEveryWayIn"
	chatWays   = "cmd/service TestAChatByEveryWayIn"
	openAIGo   = "cmd/service TestOpenAIGoVideos"
	goFile     = "cmd/service TestOpenAIGoVideos/create with a file that reaches the upstream"
	klingImage = "internal/upstream/kling TestCreateRequest"
	goChats    = "cmd/service TestOpenAIGoChats"
	deleted    = "internal/api/httpapi TestVideoObjectDelete"
	eraseEnded = "cmd/service TestEraseACompletedTask"
	eraseRuns  = "cmd/service TestEraseARunningTask"
	kling      = "cmd/service TestKlingClient"
	klingFile  = "cmd/service TestKlingClient/an image in Base64 reaches the upstream as it is"
	klingPages = "cmd/service TestKlingClient/tasks are listed by page, those of the tenant alone"
	jimeng     = "cmd/service TestJimengClient"
	chained    = "cmd/service TestGenbusBehindGenbus"
	wrongPath  = "cmd/service TestWrongProtocolNamesTheRightPath"
	gateway    = "internal/api/httpapi TestGatewayVideo"
	grpcVideo  = "internal/api/grpcapi TestGRPCVideo"
	grpcChat   = "internal/api/grpcapi TestGRPCChat"
	queuedChat = "internal/api/grpcapi TestGRPCQueuedChatAndWatch"
	sseVideo   = "internal/api/httpapi TestVideoEventsLiveAndResumed"
	sseChat    = "internal/api/httpapi TestChatEvents"
	models     = "internal/api/httpapi TestModels"
	everyRule  = "internal/api/httpapi TestEveryRuleIsMounted"
	probes     = "internal/api/httpapi TestProbes"
	failover   = "internal/consumer TestVideoFailsOverOnlyWhenNotAccepted"
)

// Why something is not there.
const (
	noStream     = "A create has one answer. The life of its task is a stream of events, whichever path made it: `/v1/video/generations/{id}/events` or `/genbus/v1/videos/{id}/events`."
	noStreamOut  = "Upstreams of the video protocols have no streams; they are polled."
	onlyRequests = "NATS carries requests for new jobs. The state of a job is its last event there. To list, cancel, delete and download are calls of gRPC and HTTP."
	noEvent      = "It changes nothing, so there is no event of it."
	formOnly     = "A form is for HTTP alone. Elsewhere the file is a `data:` URL in the body."
	notStreamed  = "It has one answer."
	ownList      = "genbus lists its own tasks, and asks no upstream for its list of tasks."
	ownErase     = "genbus erases what it has itself. What the upstream has stays there."
	erased       = "An erasure leaves nothing, so no event either. A task that was running is cancelled first, and its followers see that."
	wholeOnly    = "It is the whole reply; the row below is the stream."
	streamOnly   = "It is the stream; the row above is the whole reply."
	waitedFor    = "A chat that its caller waits for is for connections. By NATS every chat is a queued job."
	asyncOnly    = "Its answer is the accepted job. Its chunks are read from `/genbus/v1/chats/{id}/events` or from NATS."
	genbusOnly   = "It is genbus's own; upstreams do not have it."
	listOnly     = "An upstream is asked for its whole list, once a minute at most."
)

var (
	ways = []string{"in: JSON", "SSE", "gRPC", "inbox", "call", "events", "out: JSON", "SSE"}
	own  = []string{"JSON", "SSE", "gRPC"}
)

// sections are docs/compatibility.md.
var sections = []section{
	{title: "Primary video protocol", columns: ways, rows: primaryRows},
	{title: "Compatible videos", columns: ways, rows: videosRows},
	{
		title: "Vendor A: Kling", columns: ways, rows: klingRows,
		text: "The body decides the path by gRPC and NATS: with `image` or `image_tail` it is image-to-video.",
	},
	{title: "Vendor B: Jimeng", columns: ways, rows: jimengRows},
	{title: "Chat completions and models", columns: ways, rows: chatRows},
	{
		title: "genbus's own paths", columns: own, rows: ownRows,
		text: "Beside the interface document. gRPC has `grpc.health.v1.Health` too, which answers as `/readyz/jobs` does.",
	},
	{
		title: "Operators", columns: []string{"HTTP", "gRPC", "`service operator`"}, rows: operatorRows,
		text: "Over all tenants, with an operator's key: [operator.md](operator.md).",
	},
	{title: "Who calls", columns: []string{"in", "out"}, rows: keyRows},
	{title: "What holds for every protocol", columns: []string{"shown by"}, rows: everywhereRows},
}

// bodied are the cells of a create in a protocol that has bodies of its own.
func bodied(here []string, out ...string) []cell {
	return []cell{
		yes(append([]string{everyWay}, here...)...), no(noStream), as("CreateVideoTask", everyWay),
		yes(everyWay), yes(everyWay), yes(everyWay), yes(append([]string{everyWay}, out...)...), no(noStreamOut),
	}
}

// polled are the cells of a query.
func polled(here []string, out ...string) []cell {
	return []cell{
		yes(append([]string{everyWay}, here...)...), yes(sseVideo), as("GetVideoTask", grpcVideo),
		no(onlyRequests), no(onlyRequests), yes(videoWays, everyWay), yes(append([]string{everyWay}, out...)...), no(noStreamOut),
	}
}

var primaryRows = []row{
	{name: "`POST /v1/video/generations`", cells: bodied([]string{"internal/api/httpapi TestVideoCreateAndGet"}, "internal/upstream/primary TestCorpus", "internal/upstream/primary TestCreateRequest")},
	{name: "`GET /v1/video/generations/{id}`", cells: polled([]string{"internal/api/httpapi TestVideoCreateAndGet"}, "internal/upstream/primary TestCorpus")},
}

var videosRows = []row{
	{name: "`POST /v1/videos`", cells: bodied([]string{"internal/api/httpapi TestVideoObjectByJSONAndByForm"}, "internal/upstream/videos TestCorpus", "internal/upstream/videos TestRequestJSON")},
	{name: "`POST /v1/videos`, a form with a file", pattern: "POST /v1/videos", cells: []cell{
		yes(goFile, "internal/api/httpapi TestVideoObjectByJSONAndByForm", "internal/api/httpapi TestMalformedForms"), no(noStream), no(formOnly), no(formOnly), no(formOnly), yes(everyWay),
		yes(goFile, "internal/upstream/videos TestRequestForm", "internal/upstream/videos TestFileIsEqualBothWays"), no(noStreamOut),
	}},
	{name: "`GET /v1/videos/{id}`", cells: polled([]string{openAIGo, "cmd/service TestOpenAIGoPollsAsOftenAsItIsTold"}, "internal/upstream/videos TestCorpus")},
	{name: "`GET /v1/videos`", cells: []cell{
		yes("cmd/service TestOpenAIGoListsVideos", "internal/api/httpapi TestVideoObjectList"), no(notStreamed), as("ListVideoTasks", "internal/api/grpcapi TestGRPCList"),
		no(onlyRequests), no(onlyRequests), no(noEvent), no(ownList), no(noStreamOut),
	}},
	{name: "`GET /v1/videos/{id}/content`", cells: []cell{
		as("bytes", everyWay, openAIGo, "internal/api/httpapi TestContentRanges", "internal/api/httpapi TestContentHead"), no(notStreamed),
		as("DownloadVideo", everyWay, "internal/api/httpapi TestContentOfALongFileComesInPieces"),
		no(onlyRequests), no(onlyRequests), no(noEvent), as("bytes", everyWay, "internal/content TestPathIsReadWithTheKey"), no(noStreamOut),
	}},
	{name: "`DELETE /v1/videos/{id}`", cells: []cell{
		yes("cmd/service TestOpenAIGoVideos/delete, and read no more", eraseEnded, eraseRuns, deleted), no(notStreamed), as("DeleteVideoTask", eraseEnded, eraseRuns),
		no(onlyRequests), no(onlyRequests), no(erased), no(ownErase), no(noStreamOut),
	}},
}

var klingRows = []row{
	{name: "`POST /kling/v1/videos/text2video`", cells: bodied([]string{kling, "internal/upstream/kling TestRead"}, chained, "internal/upstream/kling TestCorpus", klingImage)},
	{name: "`GET /kling/v1/videos/text2video/{id}`", cells: polled([]string{kling, "internal/upstream/kling TestTaskReply"}, chained, "internal/upstream/kling TestCorpus", "internal/upstream/kling TestPollRequest")},
	{name: "`POST /kling/v1/videos/image2video`", cells: []cell{
		yes(klingFile, "internal/upstream/kling TestRead"), no(noStream), as("CreateVideoTask", everyWay, klingImage), yes(everyWay, klingImage), yes(everyWay, klingImage), yes(everyWay, klingFile),
		yes(klingFile, klingImage, "internal/upstream/kling TestCorpus"), no(noStreamOut),
	}},
	{name: "`GET /kling/v1/videos/image2video/{id}`", cells: polled([]string{klingFile, "internal/upstream/kling TestRead"}, "internal/upstream/kling TestPollRequest")},
	{name: "`GET /kling/v1/videos/text2video`", cells: klingList},
	{name: "`GET /kling/v1/videos/image2video`", cells: klingList},
}

var klingList = []cell{
	yes(klingPages, "internal/api/httpapi TestVendorListByPageNumber", "internal/upstream/kling TestTasksReply"), no(notStreamed), as("ListVideoTasks", "internal/api/grpcapi TestGRPCList"),
	no(onlyRequests), no(onlyRequests), no(noEvent), no(ownList), no(noStreamOut),
}

var jimengRows = []row{
	{
		name: "`POST /jimeng/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31`", pattern: "POST /jimeng/{$}",
		cells: bodied([]string{jimeng, "internal/upstream/jimeng TestRead"}, chained, "internal/upstream/jimeng TestCorpus", "internal/upstream/jimeng TestCreateRequest"),
	},
	{
		name: "`POST /jimeng/?Action=CVSync2AsyncGetResult&Version=2022-08-31`", pattern: "POST /jimeng/{$}",
		cells: polled([]string{jimeng, "internal/upstream/jimeng TestTask"}, chained, "internal/upstream/jimeng TestCorpus", "internal/upstream/jimeng TestPollRequest"),
	},
}

const chatPattern = "POST /v1/chat/completions"

var chatRows = []row{
	{name: "`POST /v1/chat/completions`", cells: []cell{
		yes(chatWays, "internal/api/httpapi TestOpenAIChat"), no(wholeOnly), as("CreateChatCompletion", chatWays, grpcChat),
		no(waitedFor), no(waitedFor), yes("internal/inline TestComplete"), yes(chatWays, "internal/upstream/chat TestCorpus"), no(wholeOnly),
	}},
	{name: "`POST /v1/chat/completions`, `stream: true`", pattern: chatPattern, cells: []cell{
		no(streamOnly), yes(chatWays, goChats), as("StreamChatCompletion", chatWays, grpcChat),
		no(waitedFor), no(waitedFor), yes("internal/inline TestStreamIsWhatSubscribersSee"), no(streamOnly), yes(chatWays, "internal/upstream/chat TestCorpus"),
	}},
	{name: "`POST /v1/chat/completions`, `Prefer: respond-async`", pattern: chatPattern, cells: []cell{
		yes("internal/api/httpapi TestChatRespondAsync"), no(asyncOnly), as("SubmitChatCompletion", queuedChat),
		yes(chatWays), yes(chatWays), yes(chatWays), no(genbusOnly), no(genbusOnly),
	}},
	{name: "`GET /v1/models`", cells: []cell{
		yes(models, "internal/api/httpapi TestOpenAIModels"), no(notStreamed), as("ListModels", everyRule),
		no(onlyRequests), no(onlyRequests), no(noEvent), yes(models, "internal/upstream TestListModels", "internal/routes TestModelsAreMerged"), no(notStreamed),
	}},
	{name: "`GET /v1/models/{model...}`", cells: []cell{
		yes("internal/api/httpapi TestOpenAIModels"), no(notStreamed), as("ListModels", everyRule),
		no(onlyRequests), no(onlyRequests), no(noEvent), no(listOnly), no(notStreamed),
	}},
}

var ownRows = []row{
	{name: "`GET /v1/video/generations/{id}/events`", cells: []cell{no(streamPath), yes(sseVideo), as("WatchVideoTask", grpcVideo, everyWay)}},
	{name: "`POST /genbus/v1/videos`", cells: []cell{yes(gateway), no(noStream), as("CreateVideoTask", grpcVideo)}},
	{name: "`GET /genbus/v1/videos`", cells: []cell{yes(gateway), no(notStreamed), as("ListVideoTasks", "internal/api/grpcapi TestGRPCList")}},
	{name: "`GET /genbus/v1/videos/{id}`", cells: []cell{yes(gateway), yes(sseVideo), as("GetVideoTask", grpcVideo)}},
	{name: "`GET /genbus/v1/videos/{id}/events`", cells: []cell{no(streamPath), yes(sseVideo), as("WatchVideoTask", grpcVideo)}},
	{name: "`GET /genbus/v1/videos/{id}/content`, the handler of `/v1/videos/{id}/content`", pattern: "GET /genbus/v1/videos/{id}/content", cells: []cell{as("bytes", "internal/api/httpapi TestContentRanges"), no(notStreamed), as("DownloadVideo", everyWay)}},
	{name: "`POST /genbus/v1/videos/{id}/cancel`", cells: []cell{yes(gateway), no(notStreamed), as("CancelVideoTask", "internal/api/grpcapi TestGRPCCancel")}},
	{name: "`DELETE /genbus/v1/videos/{id}`", cells: []cell{yes(eraseEnded, deleted), no(notStreamed), as("DeleteVideoTask", eraseEnded)}},
	{name: "`POST /genbus/v1/chats`", cells: []cell{yes(everyRule), no(asyncOnly), as("SubmitChatCompletion", queuedChat)}},
	{name: "`GET /genbus/v1/chats/{id}`", cells: []cell{yes(sseChat), yes(sseChat), as("GetChatCompletion", queuedChat)}},
	{name: "`GET /genbus/v1/chats/{id}/events`", cells: []cell{no(streamPath), yes(sseChat), as("WatchChatCompletion", queuedChat)}},
	{name: "`POST /genbus/v1/chats/{id}/cancel`", cells: []cell{yes("internal/api/httpapi TestEventNamesAreTheCloudEventsTypes"), no(notStreamed), as("CancelChatCompletion", "internal/api/grpcapi TestGRPCCancel")}},
	{name: "`GET /genbus/v1/models`", cells: []cell{yes(everyRule), no(notStreamed), as("ListModels", everyRule)}},
	{name: "`GET /healthz`", cells: []cell{yes(probes), no(notStreamed), no(liveness)}},
	{name: "`GET /readyz`", cells: []cell{yes(probes), no(notStreamed), no(balanced)}},
	{name: "`GET /readyz/jobs`", cells: []cell{yes(probes), no(notStreamed), yes("internal/api/grpcapi TestGRPCHealthFollowsReadiness")}},
	{name: "`GET /metrics`", cells: []cell{yes(probes), no(notStreamed), no(scraped)}},
	{name: "`GET /openapi.json`", cells: []cell{yes("internal/api/httpapi TestEveryPathIsInTheContract", "internal/api/httpapi TestEveryOperationAnswersAsDocumented", "cmd/service TestGeneratedClientCompletesAVideo"), no(notStreamed), no(reflected)}},
	{name: "`GET /asyncapi.json`", cells: []cell{yes("internal/contract TestEverySubjectHasAChannel", "cmd/service TestEveryMessageIsAsTheDocumentSays"), no(notStreamed), no(reflected)}},
	{name: "`GET /`, which leads a browser to the console", pattern: "GET /{$}", cells: []cell{yes("internal/api/console TestTheRoot"), no(notStreamed), no(forPeople)}},
	{name: "`GET /console`", cells: []cell{yes("internal/api/console TestLogin"), yes("internal/api/console TestAPageIsKeptUpToDate"), no(forPeople)}},
	{name: "`GET /console/...`", pattern: "GET /console/", cells: []cell{yes("internal/api/console TestNoLoginOnThisMachine"), yes("internal/api/console TestAPageIsKeptUpToDate"), no(forPeople)}},
	{name: "`POST /console/...`", pattern: "POST /console/", cells: []cell{yes("internal/api/console TestActions"), no(notStreamed), no(forPeople)}},
	{name: "`GET /docs`", cells: []cell{yes("internal/contract TestPageLoadsNothingFromOutside"), no(notStreamed), no(reflected)}},
}

// Tests of the operator's work.
const (
	operatorCalls   = "internal/api/grpcapi TestOperatorCalls"
	operatorCommand = "cmd/service TestOperatorCommand"
	operatorJobs    = "cmd/service TestOperatorJobsCommand"
	operatorFleet   = "cmd/service TestOperatorFleetCommand"
	operatorOrphans = "cmd/service TestOperatorOrphansCommand"
	operatorRoutes  = "cmd/service TestOperatorRoutesCommand"
	operatorBulk    = "cmd/service TestOperatorBulkCommand"

	operatorListHTTP    = "internal/api/httpapi TestOperatorListsJobsByHTTP"
	operatorJobsHTTP    = "internal/api/httpapi TestOperatorReadsAndEndsJobsByHTTP"
	operatorLettersHTTP = "internal/api/httpapi TestOperatorSettlesLettersByHTTP"
	operatorRoutesHTTP  = "internal/api/httpapi TestOperatorPausesByHTTP"
	operatorOrphansHTTP = "internal/api/httpapi TestOperatorSettlesOrphansByHTTP"

	operatorRetry        = "internal/api/grpcapi TestOperatorRetries"
	operatorRetryHTTP    = "internal/api/httpapi TestOperatorRetriesByHTTP"
	operatorRetryCommand = "cmd/service TestOperatorRetryCommand"
)

// operatorRow is a row with a path of HTTP and the test that shows it.
func operatorRow(name, pattern, test string, cells ...cell) row {
	return row{name: name, pattern: pattern, cells: append([]cell{as(pattern, test)}, cells...)}
}

var operatorRows = []row{
	operatorRow("Find jobs of all tenants", "GET /genbus/v1/operator/jobs", operatorListHTTP,
		as("ListJobs", operatorCalls, "internal/operator TestJobsAreFound", "internal/jobindex TestSearchFindsWhatIsThere", "internal/jobindex TestAnyReplicaSearches"), as("jobs list", operatorJobs)),
	operatorRow("See one, with its history", "GET /genbus/v1/operator/jobs/{id}", operatorJobsHTTP,
		as("GetJob", operatorCalls, "internal/operator TestJobsAreFound", "internal/operator TestWaitingJobsHaveAPlace"), as("jobs show", operatorJobs)),
	operatorRow("List dead letters", "GET /genbus/v1/operator/dead-letters", operatorLettersHTTP,
		as("ListDeadLetters", operatorCalls, "internal/operator TestList"), as("dead list", operatorCommand)),
	operatorRow("Read one, with its request", "GET /genbus/v1/operator/dead-letters/{sequence}", operatorLettersHTTP,
		as("GetDeadLetter", operatorCalls, "internal/operator TestALetterHasItsOwnBody"), as("dead show", operatorCommand)),
	operatorRow("Send its request again, as one new job", "POST /genbus/v1/operator/dead-letters/{sequence}/redrive", operatorLettersHTTP,
		as("RedriveDeadLetter", operatorCalls, "internal/operator TestRedriveMakesOneJob", "internal/operator TestRedriveAfterACrash", "internal/operator TestRedriveOfAMessage"), as("dead redrive", operatorCommand)),
	operatorRow("Remove it", "DELETE /genbus/v1/operator/dead-letters/{sequence}", operatorLettersHTTP,
		as("DropDeadLetter", operatorCalls, "internal/operator TestDropLeavesTheBodyOfAJob"), as("dead drop", operatorCommand)),
	operatorRow("Attach the upstream's task, without a create", "POST /genbus/v1/operator/dead-letters/{sequence}/attach", operatorLettersHTTP,
		as("AttachUpstreamTask", operatorCalls, "internal/operator TestAttachMakesOneJobAndNoCreate", "internal/operator TestAttachAfterACrash", "internal/operator TestAttachInEveryProtocol"), as("attach", "cmd/service TestOperatorAttachCommand")),
	operatorRow("Ask the upstream for its task", "POST /genbus/v1/operator/dead-letters/{sequence}/look-up", operatorLettersHTTP,
		as("LookUpUpstreamTask", operatorCalls, "internal/operator TestALetterIsLookedUp"), as("look-up", "cmd/service TestOperatorLookUpCommand")),
	operatorRow("Cancel a job of either kind", "POST /genbus/v1/operator/jobs/{id}/cancel", operatorJobsHTTP,
		as("CancelJob", operatorCalls, "internal/api/grpcapi TestOperatorCancels"), as("cancel", "cmd/service TestOperatorCancelCommand")),
	operatorRow("Erase a job of either kind", "DELETE /genbus/v1/operator/jobs/{id}", operatorJobsHTTP,
		as("EraseJob", operatorCalls, "internal/operator TestErase"), as("erase", operatorCommand)),
	operatorRow("Submit a job again, edited if wanted, as one new job", "POST /genbus/v1/operator/jobs/{id}/retry", operatorRetryHTTP,
		as("RetryJob", operatorRetry, "internal/operator TestRetryMakesOneJobOfAKey", "internal/operator TestRetryIsRefused", "internal/operator TestALetterDecidesOnARetry"), as("jobs retry", operatorRetryCommand)),
	operatorRow("Read the request of a job, and the reply of a chat", "GET /genbus/v1/operator/jobs/{id}/bodies", operatorRetryHTTP,
		as("GetJobBodies", operatorRetry, "internal/operator TestBodiesArePrivate"), as("jobs body", operatorRetryCommand)),
	operatorRow("See how routes are doing", "GET /genbus/v1/operator/routes", operatorRoutesHTTP,
		as("ListRoutes", operatorCalls, "internal/operator TestPause"), as("routes", operatorRoutes)),
	operatorRow("Pause a route", "POST /genbus/v1/operator/routes/{kind}/{name}/pause", operatorRoutesHTTP,
		as("PauseRoute", operatorCalls, "internal/operator TestPause", "internal/api/grpcapi TestPausedRouteRefusesInlineChats"), as("pause", operatorRoutes)),
	operatorRow("Resume it", "POST /genbus/v1/operator/routes/{kind}/{name}/resume", operatorRoutesHTTP,
		as("ResumeRoute", operatorCalls, "internal/operator TestPause"), as("resume", operatorRoutes)),
	operatorRow("See jobs without a route", "GET /genbus/v1/operator/orphans", operatorOrphansHTTP,
		as("ListOrphans", operatorCalls, "internal/operator TestOrphans"), as("orphans list", operatorOrphans)),
	operatorRow("End them", "POST /genbus/v1/operator/orphans/{kind}/{name}/fail", operatorOrphansHTTP,
		as("FailOrphans", operatorCalls, "internal/operator TestOrphans"), as("orphans fail", operatorOrphans)),
	operatorRow("See how everything is doing, once a second", "GET /genbus/v1/operator/overview", operatorListHTTP,
		as("GetOverview", operatorCalls, "internal/operator TestOverview"), as("overview", operatorFleet)),
	operatorRow("See how tenants are doing", "GET /genbus/v1/operator/tenants", operatorListHTTP,
		as("ListTenants", operatorCalls, "internal/operator TestTenantsAreCounted"), as("tenants", operatorFleet)),
	operatorRow("See what is in the streams", "GET /genbus/v1/operator/streams", operatorListHTTP,
		as("ListStreams", operatorCalls, "internal/operator TestStreamsAreListed"), as("streams", operatorFleet)),
	operatorRow("See upstreams and their keys, of all replicas", "GET /genbus/v1/operator/upstreams", operatorListHTTP,
		as("ListUpstreams", operatorCalls, "internal/pool TestStateTellsWhatIsDecided", "internal/fleet TestAllReplicasAreAsked"), as("upstreams", operatorFleet)),
	operatorRow("See which replicas there are", "GET /genbus/v1/operator/replicas", operatorListHTTP,
		as("ListReplicas", operatorCalls, "internal/fleet TestAllReplicasAreAsked"), as("replicas", operatorFleet)),
	operatorRow("See what operators did", "GET /genbus/v1/operator/audit", operatorLettersHTTP,
		as("ListAuditRecords", operatorCalls, "internal/audit TestActionsAreRecorded", "internal/audit TestNothingIsDoneWithoutARecord"), as("audit", operatorRoutes)),
	operatorRow("Cancel, redrive, drop or attach many at once, or count them", "POST /genbus/v1/operator/operations", "internal/api/httpapi TestTenantsAreApartOnEveryPath",
		as("StartOperation", "internal/api/grpcapi TestOperations", "internal/operator TestManyJobsAreCancelled", "internal/operator TestManyLettersAreRedriven", "internal/operator TestManyLettersAreDropped", "internal/operator TestManyTasksAreAttached", "internal/bulk TestAReplicaThatDiesIsFollowed"), as("bulk cancel", operatorBulk)),
	operatorRow("See how far that is", "GET /genbus/v1/operator/operations/{id}", "internal/api/httpapi TestTenantsAreApartOnEveryPath",
		as("GetOperation", "internal/api/grpcapi TestOperations"), as("operations show", operatorBulk)),
	operatorRow("List what was started so", "GET /genbus/v1/operator/operations", "internal/api/httpapi TestTenantsAreApartOnEveryPath",
		as("ListOperations", "internal/api/grpcapi TestOperations", "internal/bulk TestOperationsAreListed"), as("operations list", operatorBulk)),
	operatorRow("Stop it", "POST /genbus/v1/operator/operations/{id}/stop", "internal/api/httpapi TestTenantsAreApartOnEveryPath",
		as("StopOperation", "internal/api/grpcapi TestOperations", "internal/bulk TestAnOperationIsStopped"), as("operations stop", operatorBulk)),
	{name: "Tenants, and strangers, are refused", cells: []cell{yes("internal/api/httpapi TestOperatorPathsAreForOperators", "internal/api/httpapi TestTenantsAreApartOnEveryPath"), yes("internal/api/grpcapi TestOperatorMethodsAreForOperators", "internal/api/grpcapi TestAnOperatorsKeyIsNoTenants"), yes("cmd/service TestOperatorCommandIsRefused")}},
}

const (
	streamPath = "It is a stream of server-sent events."
	liveness   = "A process that answers by HTTP is alive."
	balanced   = "What balancers ask by gRPC is whether it takes jobs."
	scraped    = "Prometheus reads metrics by HTTP."
	reflected  = "gRPC has reflection."
	forPeople  = "Pages for people; what they show and do is of OperatorService."
)

var keyRows = []row{
	{name: "API key, `Authorization: Bearer`", cells: []cell{
		yes("internal/api/httpapi TestTenantsAreApartOnEveryPath", "internal/api/grpcapi TestTenantsAreApartOnEveryMethod", "internal/api/grpcapi TestGRPCKeys", "internal/config TestTenant"),
		yes(chained, "internal/upstream TestNewRequestHeader", "internal/upstream/primary TestCreateRequest"),
	}},
	{name: "JWT of a key pair (Kling)", cells: []cell{
		yes(kling, "internal/upstream/kling TestSignature", "internal/upstream/kling TestVerify"),
		yes(chained, "internal/upstream/kling TestTokenVector", "internal/upstream/kling TestStaleTokenIsRenewedOnce"),
	}},
	{name: "HMAC-SHA256 with a key pair (Jimeng)", cells: []cell{
		yes(jimeng, "internal/upstream/jimeng TestVerify", "internal/upstream/jimeng TestVerifyOtherScope"),
		yes(chained, "internal/upstream/jimeng TestVector", "internal/upstream/jimeng TestSignedOverTheWire"),
	}},
}

var everywhereRows = []row{
	{name: "A task of each protocol can be read, and its content downloaded, in the form of every other", cells: []cell{yes(everyWay)}},
	{name: "What a vendor adds to chats reaches every reader: by HTTP byte for byte, by gRPC, in events", cells: []cell{yes("cmd/service TestVendorFieldsOfChatsReachEveryReader")}},
	{name: "Every refusal on a vendor's path has the vendor's envelope", cells: []cell{yes("internal/api/httpapi TestVendorRefusals")}},
	{name: "Each protocol is called where its vendor or a gateway has it", cells: []cell{yes("internal/routes TestWhereEachProtocolIsCalled")}},
	{name: "A model is not reached by the path of another protocol, and the refusal names the right path", cells: []cell{yes(wrongPath)}},
	{name: "A body is read in the protocol of the model's route", cells: []cell{yes("internal/admission TestFormIsFoundByTheModelsRoute")}},
	{name: "A typed request is written in the protocol of its route, or refused with the field that does not fit", cells: []cell{yes(
		everyWay, "internal/admission TestTypedRequestIsWrittenInItsRoutesProtocol", "internal/upstream/videos TestFromTyped", "internal/upstream/videos TestFromTypedRefused", "internal/upstream/kling TestFromTyped",
		"internal/upstream/kling TestFromTypedRefuses", "internal/upstream/jimeng TestFromTyped", "internal/upstream/jimeng TestFromTypedRefuses")}},
	{name: "Every answer of upstreams that is known is read as recorded", cells: []cell{yes(
		"internal/upstream/primary TestCorpus", "internal/upstream/videos TestCorpus", "internal/upstream/kling TestCorpus", "internal/upstream/jimeng TestCorpus", "internal/upstream/chat TestCorpus")}},
	{name: "Every refusal is final or for now, and about the request, the key or the upstream, as its table says", cells: []cell{yes(
		"internal/upstream/primary TestOutcomeRows", "internal/upstream/videos TestOutcomeRows", "internal/upstream/kling TestOutcomeRows",
		"internal/upstream/jimeng TestOutcomeRows", "internal/upstream/chat TestOutcomeRows")}},
	{name: "A video fails over only when its submission was certainly not accepted", cells: []cell{yes(failover)}},
	{name: "A chat fails over until its first block, and never after", cells: []cell{yes("internal/pool TestChatsMoveOn", "internal/pool TestStreamsDoNotMoveOnOnceBegun")}},
	{name: "Keys take turns, wait and cool down", cells: []cell{yes("internal/consumer TestKeysTakeTurnsAndRest", "internal/pool TestKeysWaitAsTheyAreTold", "internal/pool TestRefusedKeysCoolDown")}},
	{name: "A task stays with the upstream and the key that made it, on one node and on three", cells: []cell{yes("internal/consumer TestTaskStaysWithItsAccount")}},
	{name: "Limits for each key hold, and places are given back", cells: []cell{yes("internal/consumer TestAFreeSlotIsTakenAtOnce", "internal/pool TestThePoolKeepsItsRules")}},
	{name: "A breaker keeps jobs from an upstream that fails", cells: []cell{yes("internal/pool TestBreakerOpens", "internal/pool TestWhatTheBreakerCounts")}},
	{name: "A result is archived before its task completes", cells: []cell{yes("internal/consumer TestArchive", "internal/content TestArchive")}},
	{name: "A copy is served when its upstream and its URL are gone", cells: []cell{yes("internal/api/httpapi TestContentOfACopyOutlivesItsUpstream")}},
	{name: "A task that was erased leaves nothing, on one node and on three", cells: []cell{yes(eraseEnded, eraseRuns, "cmd/service TestEraseEndsThoseWhoWatch", "cmd/service TestEraseBelongsToTheTenant", "internal/joblog TestEraseLeavesNothing", "internal/queue TestReleasedTakesNothingAway")}},
	{name: "The SDKs of OpenAI for Go and Node, and clients of Kling and Jimeng that sign, work with nothing but another address", cells: []cell{yes(openAIGo, goChats, "cmd/service TestNodeClients/openai.mjs", kling, jimeng)}},
	{name: "The AI SDK, LangChain, nats.js and the CloudEvents SDKs for Go and JavaScript work against `serve --sandbox` ([clients.md](clients.md#clients-that-are-tested))", cells: []cell{yes(
		"cmd/service TestNodeClients/aisdk.mjs", "cmd/service TestNodeClients/langchain.mjs", "cmd/service TestNodeClients/nats.mjs", "cmd/service TestNodeClients/cloudevents.mjs",
		"cmd/service TestGoClients/CloudEvents", "internal/publisher TestCloudEventsGo", "internal/publisher TestCloudEventsJavaScript")}},
	{name: "grpcurl and the nats command line work against `serve --sandbox`", cells: []cell{yes("cmd/service TestCommandLineClients/grpcurl", "cmd/service TestCommandLineClients/nats")}},
	{name: "genbus can be the upstream of genbus, in every protocol", cells: []cell{yes(chained)}},
	{name: "Content is not asked for before a task has completed", cells: []cell{yes("internal/api/httpapi TestContentIsNotAskedForBeforeCompletion")}},
	{name: "A key goes to its own upstream only, whatever the upstream redirects to", cells: []cell{yes(
		"internal/content TestForeignURLIsReadWithoutKey", "internal/content TestRedirectToAStrangerLosesTheKey", "internal/content TestStrangerCannotUseTheKey", "internal/content TestDowngradeLosesTheKey", "internal/api/httpapi TestContentKeyStaysWithItsUpstream")}},
	{name: "Results at private addresses are not read", cells: []cell{yes("internal/content TestPrivateAddressesAreBlocked", "internal/content TestProxiesOnlyWherePrivateAddressesAreAllowed", "internal/api/httpapi TestContentAtForbiddenAddresses")}},
	{name: "A download is a range, a part or the whole, and never a part that looks whole", cells: []cell{yes("internal/content TestRanges", "internal/content TestShortBody", "internal/api/httpapi TestContentThatBreaksOff", "internal/content TestMemoryStaysSmall")}},
}

const notThere = `
Not served at all, and answered with ` + "`not_found`" + ` (404): the remix, edits, extensions and characters of the compatible interface, its batches and its webhooks, and everything that is neither a video, a chat nor a model. ` + "`callback_url`" + ` of vendor A
is refused: genbus publishes events. Of ` + "`variant`" + `, the content has ` + "`video`" + ` only.

`
