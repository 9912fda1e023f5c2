/**
 * The scenario `replicas`: users make calls of all kinds at two replicas and a worker on Redis. Each of the three processes
 * is killed once, and started again after some seconds.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isRecord } from '@x/internal'
import { freePort, startRedisServer } from '@x/internal/testing'
import { redisStore } from '@x/mcp-gateway-redis'
import { startRecordingProxy } from '@x/mcp-testing'
import { effectsIn, NODES } from './payment-graph.ts'
import type { Effect } from './payment-graph.ts'
import { Child, temporaryFolder } from './processes.ts'
import { User } from './replica-calls.ts'
import type { CallEnd } from './replica-calls.ts'
import type { ReplicaSpec } from './replica-process.ts'
import { upToFrom } from './scenario.ts'
import type { ScenarioReport } from './scenario.ts'

export const REPLICAS = 'replicas'

const USERS = 6
/** Time in which the last tasks must end, in milliseconds. A process that starts looks for them after 5 s. */
const RECORDS_MS = 30_000

export interface ReplicasOptions {
  readonly seed: number
  /** Time in which calls are made. */
  readonly seconds: number
}

/** Runs the scenario. @returns `undefined` without a `redis-server` */
export async function runReplicas(options: ReplicasOptions): Promise<ScenarioReport | undefined> {
  const { seed, seconds } = options
  const begun = performance.now()
  await using stack = new AsyncDisposableStack()
  const redis = await startRedisServer()
  if (!redis) return undefined
  stack.use(redis)
  const folder = temporaryFolder(stack)
  writeFileSync(join(folder, 'effects'), '')
  const run = `run-${seed}-${Date.now().toString(36)}`
  const names = Array.from({ length: USERS }, (_, index) => `${run}-${index}`)
  const users = Object.fromEntries(
    names.map((name) => [name, `the token of ${name}`.replaceAll(' ', '-')]),
  )
  const crashes: string[] = []
  const lost = new Set<number>()
  const child = (name: string, spec: Pick<ReplicaSpec, 'role' | 'ports'>): Child => {
    const whole: ReplicaSpec = { folder, redisUrl: redis.url, users, ...spec }
    const entry = new URL('replica-process.ts', import.meta.url)
    const onMessage = (): void => void lost.add(one.pid ?? 0) // it was late
    const one = new Child({ name, entry, spec: whole, crashes, onMessage })
    return one
  }
  const ports = await Promise.all(
    [1, 2].map(async () => [await freePort(), await freePort()] as const),
  )
  const replicas = ports.map((own, index) =>
    child(`replica ${index + 1}`, { role: 'replica', ports: own }),
  )
  const children = [...replicas, child('worker', { role: 'worker', ports: [0, 0] })]
  stack.defer(async () => void (await Promise.all(children.map((one) => one.kill()))))
  await Promise.all(children.map((one) => one.start()))

  // As a load balancer with health checks, without sticky sessions: requests go to replicas that run.
  let turn = 0
  const balancer = async (index: 0 | 1): Promise<string> => {
    const target = (): string => {
      const running = ports.filter((_, replica) => replicas[replica]?.isRunning)
      const open = running.length > 0 ? running : ports
      return `http://127.0.0.1:${open[turn++ % open.length]?.[index]}/mcp`
    }
    return stack.use(await startRecordingProxy(target, { keepExchanges: 1000 })).url
  }
  const urls = { payments: await balancer(0), conversations: await balancer(1) }
  const callers = names.map((name, index) =>
    stack.use(
      new User({ name, token: users[name] ?? '', urls, upTo: upToFrom(seed * 100 + index) }),
    ),
  )

  const over = new AbortController()
  const killing = killEach(children, { seed, seconds, lost })
  const calling = callers.map(async (user) => {
    while (!over.signal.aborted) await user.callAny()
  })
  await Promise.all([killing, sleep(seconds * 1000)])
  over.abort()
  await Promise.all(calling)

  const violations: string[] = []
  for (const user of callers) {
    for (const kind of ['plain', 'key', 'task', 'pair', 'conversation'] as const) {
      const { outcome } = await user.call(kind)
      if (outcome !== 'done') violations.push(`A call (${kind}) without faults: ${outcome}`)
    }
    violations.push(...(await user.readFiles()))
  }
  await using store = redisStore({ url: redis.url, prefix: 'payments', timeoutMs: 10_000 })
  const running = await untilTasksEnd(store)
  const ends = callers.flatMap((user) => user.ends)
  const effects = effectsIn(readFileSync(join(folder, 'effects'), 'utf8'))
  violations.push(...violationsOf(ends, effects, lost), ...running, ...crashes)
  const count = (outcome: CallEnd['outcome']): number =>
    ends.filter((end) => end.outcome === outcome).length
  const figures = {
    calls: ends.length,
    done: count('done'),
    unknown: count('unknown'),
    notExecuted: count('not-executed'),
    files: callers.reduce((sum, { files }) => sum + files.size, 0),
    executions: effects.length,
    slowestMs: Math.max(...ends.map(({ ms }) => ms)),
  }
  const { calls, done, unknown, notExecuted, files, slowestMs } = figures
  return {
    name: REPLICAS,
    ok: violations.length === 0,
    seed,
    ms: Math.round(performance.now() - begun),
    ...(violations.length > 0 && { error: violations.slice(0, 10).join('\n           ') }),
    repeat: `pnpm chaos --scenario ${REPLICAS} --seed ${seed} --seconds ${seconds}`,
    summary: `${calls} calls: ${done} done, ${unknown} unknown, ${notExecuted} not executed; ${files} files read; slowest ${slowestMs} ms`,
    figures,
  }
}

/** Kills one process after the other, each in its share of the time, and starts it again. */
async function killEach(
  children: readonly Child[],
  { seed, seconds, lost }: ReplicasOptions & { readonly lost: Set<number> },
): Promise<void> {
  const upTo = upToFrom(seed)
  const order = children.map((child) => ({ child, at: upTo(1000) })).toSorted((a, b) => a.at - b.at)
  const shareMs = (seconds * 1000) / order.length
  for (const { child } of order) {
    const ms = shareMs / 4 + upTo(shareMs / 4)
    await sleep(ms)
    if (child.pid !== undefined) lost.add(child.pid)
    await child.kill()
    await sleep(1000 + upTo(2000))
    await child.start()
  }
}

/** @returns the tasks that still run, without faults */
async function untilTasksEnd(store: ReturnType<typeof redisStore>): Promise<readonly string[]> {
  for (const begun = performance.now(); ;) {
    const rows = await store.records.list('call:', { limit: 100_000 })
    const running = rows.filter(({ value }) => {
      const state = isRecord(value) && value['task'] !== undefined ? value['state'] : undefined
      return isRecord(state) && state['status'] === 'running'
    })
    if (running.length === 0) return []
    if (performance.now() - begun > RECORDS_MS) {
      return running.map(
        ({ key, value }) => `The task ${key} has not ended: ${JSON.stringify(value)}`,
      )
    }
    await sleep(50)
  }
}

/**
 * Returns how executions differ from what the ends of the calls say. Each node runs once; a node of a task once more each
 * time its process was killed before the checkpoint of its end.
 *
 * @param lost processes that were killed, or did not run for so long that they count as dead
 */
export function violationsOf(
  ends: readonly CallEnd[],
  effects: readonly Effect[],
  lost: ReadonlySet<number>,
): readonly string[] {
  const executions = Map.groupBy(effects, ({ key }) => key)
  const found = ends.flatMap((end) => {
    const own = executions.get(end.key) ?? []
    executions.delete(end.key)
    const problem = problemOf(end, own, lost)
    if (problem === undefined) return []
    const history = own.map(({ node, pid }) => `${node} ${pid}${lost.has(pid) ? ' (lost)' : ''}`)
    return [`${end.key} (${end.kind}): ${problem}. Executed: ${history.join(', ') || 'nothing'}`]
  })
  return [...found, ...[...executions.keys()].map((key) => `${key} was executed without a call`)]
}

function problemOf(
  { kind, outcome, detail }: CallEnd,
  own: readonly Effect[],
  lost: ReadonlySet<number>,
): string | undefined {
  if (outcome === 'wrong') return detail
  if (outcome === 'not-executed' && own.length > 0) return 'reported as not executed'
  const isTask = kind === 'task' || kind === 'pair'
  const nodes = kind === 'conversation' ? ['note'] : NODES
  const isIncomplete = nodes.some((node) => own.every((effect) => effect.node !== node))
  if (outcome === 'done' && isIncomplete) return 'reported as done, and is not'
  const isRepeated = own.some(({ node }, index) => {
    const before = own[index - 1]
    if (before?.node === node) return !(isTask && lost.has(before.pid))
    return own.slice(0, index).some((effect) => effect.node === node)
  })
  return isRepeated ? 'a node ran twice' : undefined
}
