// A gateway with one agent, and whoever calls that directly, in one process: `langgraph | a2a <url> | a2a-unary <url>`.
import { bearerAuth, createGateway } from '@x/mcp-gateway'
import { answerTasks } from '../../bench/tasks.ts'
import { isObject } from '../../client/checks.ts'
import { percentile } from '../../debugstate/percentile.ts'
import { wishFrom } from '../../debugstate/workloads.ts'
import { PATH, TOKEN } from '../protocol.ts'
import { calledA2a } from './called-a2a.ts'
import type { CalledAgent } from './called-agent.ts'
import { calledGraph } from './called-graph.ts'
import { overheadNameFrom } from './overhead-name.ts'
import type { OverheadName } from './overhead-name.ts'

const [, , argument, url = ''] = process.argv
const called = await calledFrom(overheadNameFrom(argument))
const MANY = 1_000_000_000

const gateway = createGateway({
  ...called.options,
  auth: bearerAuth({ bench: { token: TOKEN, scopes: ['*'] } }),
  http: { path: PATH, metricsPath: '/metrics' },
  limits: { requestsPerMinutePerPrincipal: MANY },
  sessions: { initializePerMinutePerIp: MANY },
})
const { port } = await gateway.listen({ port: 0 })
await gateway.registry.start()

answerTasks(async (task) => {
  switch (wishFrom(task)) {
    case 'port':
      return port
    case 'called':
      return { tool: called.tool, answer: called.answer }
    case 'cpu': {
      const { user, system } = process.cpuUsage()
      return user + system
    }
    case 'direct':
      return direct(called, isObject(task) ? Number(task['times']) : Number.NaN)
    default:
      throw new TypeError('A gateway does not know what to do')
  }
})

async function calledFrom(name: OverheadName): Promise<CalledAgent> {
  switch (name) {
    case 'langgraph':
      return calledGraph()
    case 'a2a':
      return calledA2a(url, true)
    case 'a2a-unary':
      return calledA2a(url, false)
  }
}

/** Calls the agent again and again. @returns how long half of the calls took at most */
async function direct(agent: CalledAgent, times: number): Promise<{ readonly p50Us: number }> {
  const latencies = new Float64Array(times)
  for (let turn = 0; turn < times; turn += 1) {
    const startedAt = performance.now()
    const answer = await agent.call()
    latencies[turn] = performance.now() - startedAt
    if (answer !== agent.answer) throw new Error(`A wrong answer: ${answer.slice(0, 200)}`)
  }
  return { p50Us: percentile(latencies, 0.5) * 1000 }
}
