import { getRoute } from '../http/get-route.ts'
import type { HttpRoute } from '../http/http-route.ts'
import { MetricSet } from './metric-set.ts'
import type { GatewayObserver } from '../internal/observer.ts'

/** Seconds: agents take as long as people do. */
const DURATIONS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]

/** What is read when somebody asks for the metrics. */
export interface GatewayGauges {
  /** Agents that are there. */
  readonly agents: () => number
  /** Of them, those with something wrong. */
  readonly degradedAgents: () => number
  readonly tools: () => number
}

export interface GatewayMetrics {
  /** Counts what it is told. */
  readonly observer: GatewayObserver
  /** In the format of Prometheus. */
  readonly text: () => string
}

/**
 * Metrics of a gateway. Labels are tools and outcomes, which are the gateway's own words; never principals, whose
 * number has no bound.
 */
export function gatewayMetrics(gauges: GatewayGauges): GatewayMetrics {
  const set = new MetricSet()
  const started = process.hrtime.bigint()
  const calls = set.counter('mcp_gateway_calls_total', 'Calls of tools that ended, by outcome.')
  const callSeconds = set.histogram(
    { name: 'mcp_gateway_call_duration_seconds', help: 'How long calls of tools took.' },
    DURATIONS,
  )
  const requestBytes = set.counter('mcp_gateway_call_argument_bytes_total', 'Bytes of arguments.')
  const resultBytes = set.counter('mcp_gateway_call_result_bytes_total', 'Bytes of results.')
  const refused = set.counter(
    'mcp_gateway_refused_requests_total',
    'Requests that were turned away before anybody looked at what they ask for, by reason.',
  )
  const files = set.counter(
    'mcp_gateway_file_transfers_total',
    'Files that were uploaded or downloaded over HTTP, by outcome.',
  )
  const fileBytes = set.counter('mcp_gateway_file_bytes_total', 'Bytes of such files.')
  const runs = set.counter('mcp_gateway_runs_total', 'Runs of agents that ended, by outcome.')
  const runSeconds = set.histogram(
    { name: 'mcp_gateway_run_duration_seconds', help: 'How long runs of agents took.' },
    DURATIONS,
  )
  const orphans = set.counter(
    'mcp_gateway_orphaned_runs_total',
    'Runs whose agent did not stop when it was told to.',
  )
  const opened = set.counter('mcp_gateway_sessions_opened_total', 'Sessions that were opened.')
  const closed = set.counter('mcp_gateway_sessions_closed_total', 'Sessions that ended, by reason.')
  const changes = set.counter('mcp_gateway_list_changes_total', 'Changes of lists that were told.')
  const warnings = set.counter('mcp_gateway_warnings_total', 'Oddities that were logged.')
  let [activeCalls, activeRuns, sessions] = [0, 0, 0]
  const running = new Set<string>()
  set.gauge('mcp_gateway_active_calls', 'Calls of tools under way.', () => activeCalls)
  set.gauge('mcp_gateway_active_runs', 'Runs of agents under way.', () => activeRuns)
  set.gauge('mcp_gateway_sessions', 'Sessions that are open.', () => sessions)
  set.gauge('mcp_gateway_agents', 'Agents that are there.', gauges.agents)
  set.gauge('mcp_gateway_degraded_agents', 'Agents with something wrong.', gauges.degradedAgents)
  set.gauge('mcp_gateway_tools', 'Tools that are offered.', gauges.tools)
  set.gauge('mcp_gateway_uptime_seconds', 'Since the gateway was made.', () => {
    return Number((process.hrtime.bigint() - started) / 1_000_000n) / 1000
  })
  set.gauge('process_resident_memory_bytes', 'Memory of the process.', () => {
    return process.memoryUsage.rss()
  })

  const observer: GatewayObserver = {
    callStarted: () => {
      activeCalls += 1
      return undefined
    },
    callEnded: ({ tool, isKnown }, end) => {
      const name = isKnown ? tool : 'unknown'
      activeCalls -= 1
      calls.add({ tool: name, outcome: end.outcome })
      callSeconds.observe(end.durationMs / 1000, { tool: name })
      requestBytes.add({}, end.requestBytes)
      resultBytes.add({}, end.resultBytes)
    },
    requestRefused: ({ reason }) => refused.add({ reason }),
    fileTransferred: ({ direction, outcome, bytes }) => {
      files.add({ direction, outcome })
      fileBytes.add({ direction }, bytes)
    },
    runEvent: (event) => {
      const { type, runId, tool } = event
      if (type === 'started') {
        running.add(runId)
        activeRuns += 1
      } else if (type === 'ended') {
        if (running.delete(runId)) activeRuns -= 1
        runs.add({ tool, outcome: event.outcome })
        runSeconds.observe(event.durationMs / 1000, { tool })
      } else if (type === 'orphaned') orphans.add({ tool })
    },
    sessionOpened: () => {
      sessions += 1
      opened.add()
    },
    sessionClosed: ({ reason }) => {
      sessions -= 1
      closed.add({ reason })
    },
    listChanged: (list) => changes.add({ list }),
    warned: () => warnings.add(),
  }
  return { observer, text: () => set.text() }
}

/** Answers `GET` of a path, also for those who know no name of the gateway: scrapers ask by address. */
export function metricsRoute(path: string, metrics: Pick<GatewayMetrics, 'text'>): HttpRoute {
  const route = getRoute(path, async () => ({
    status: 200,
    mimeType: 'text/plain; version=0.0.4; charset=utf-8',
    body: metrics.text(),
  }))
  // Without `auth` the Host header is all that keeps a web page from reading them.
  return { ...route, isOpen: false }
}
