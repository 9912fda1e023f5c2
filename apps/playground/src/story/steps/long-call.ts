import { fork } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startRedisServer } from '@x/internal/testing'
import { startRecordingProxy } from '@x/mcp-testing'
import type { Exchange, ExchangeMark } from '@x/mcp-testing'
import { UserError } from '../../user-error.ts'
import { checkStep } from '../check.ts'
import type { Scene } from '../scene.ts'

/** Limit of each wait of this step. */
const TIMEOUT_MS = 30_000
const GATEWAY = new URL('../../long-call/gateway-process.ts', import.meta.url)
const AGENT = new URL('../../long-call/agent-process.ts', import.meta.url)
const QUESTION = 'Write a report about tides'

/**
 * Kills an agent and the gateway that it called while the call runs. New processes finish the call. Without a
 * `redis-server`, a task ends with its gateway process, so only the agent is killed.
 */
export async function longCall({ narrator, tell }: Scene): Promise<void> {
  await using stack = new AsyncDisposableStack()
  const redis = stack.use(await startRedisServer())
  const folder = await mkdtemp(join(tmpdir(), 'mcp-demo-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const token = randomBytes(32).toString('hex')
  const common = { DATA_FOLDER: folder, GATEWAY_TOKEN: token, REDIS_URL: redis?.url ?? '' }
  const startGateway = async (): Promise<{ readonly process: Program; readonly url: string }> => {
    const started = stack.use(startProgram(GATEWAY, common))
    const url = await started.message
    if (url === undefined) throw new UserError('The gateway process did not start')
    return { process: started, url }
  }

  narrator.step(
    redis
      ? 'A call outlives the agent process and the gateway process'
      : 'A call outlives the agent process',
    'The gateway makes the call a task. The next process waits for the same task.',
  )
  if (!redis) {
    narrator.says('world', 'With Redis, the call would also outlive the gateway process.')
  }
  let gateway = await startGateway()
  const proxy = stack.use(await startRecordingProxy(() => gateway.url))
  const startAgent = (question: string): Program => {
    const settings = { ...common, GATEWAY_URL: proxy.url, QUESTION: question }
    return stack.use(startProgram(AGENT, settings))
  }

  narrator.says('user', QUESTION)
  const first = startAgent(QUESTION)
  await polled(proxy)
  await untilCounted(folder, 'write')
  narrator.says('world', 'the task runs, and the agent waits for its result')
  const killed = [await first.kill()]
  narrator.says('world', `agent process ${first.pid} was killed (SIGKILL)`)
  const killedAt = performance.now()
  if (redis) {
    killed.push(await gateway.process.kill())
    narrator.says('world', `gateway process ${gateway.process.pid} was killed (SIGKILL)`)
    gateway = await startGateway()
    narrator.says('world', `gateway process ${gateway.process.pid} started`)
  }
  const mark = proxy.mark()
  const second = startAgent('')
  await polled(mark)
  narrator.says('world', `agent process ${second.pid} started, and polls the task`)
  await writeFile(join(folder, 'tides.txt'), 'high water at 06:14')
  const answer = (await second.message) ?? 'none'
  narrator.says('agent', answer)
  const seconds = ((performance.now() - killedAt) / 1000).toFixed(1)
  narrator.says('world', `the answer came ${seconds} s after the kill`)
  const nodes = await counted(folder)
  tell(
    checkStep(
      'call that outlives processes',
      {
        'processes killed': killed.filter((signal) => signal === 'SIGKILL').length,
        'tools/call': proxy.count({ rpcMethod: 'tools/call' }),
        'runs of prepare': nodes.filter((node) => node === 'prepare').length,
        'runs of write': nodes.filter((node) => node === 'write').length,
        answer,
      },
      {
        'processes killed': redis ? 2 : 1,
        'tools/call': 1,
        'runs of prepare': 1,
        'runs of write': redis ? 2 : 1, // a node that was killed runs again
        answer: 'Report about tides: high water at 06:14',
      },
    ),
  )
}

interface Program extends AsyncDisposable {
  readonly pid: number
  /** The first message of the process. `undefined`: the process ended, or sent none in time. */
  readonly message: Promise<string | undefined>
  /** Returns the signal that ended the process. `null`: it had ended by itself. */
  kill(): Promise<NodeJS.Signals | null>
}

function startProgram(file: URL, settings: Readonly<Record<string, string>>): Program {
  const child = fork(fileURLToPath(file), {
    execArgv: ['--conditions=mcp-source'],
    env: { ...process.env, ...settings },
  })
  const exited = once(child, 'exit')
  const kill = async (): Promise<NodeJS.Signals | null> => {
    child.kill('SIGKILL')
    await exited
    return child.signalCode
  }
  const message = Promise.race([
    once(child, 'message').then(([text]: string[]) => text),
    exited.then(() => undefined),
    sleep(TIMEOUT_MS, undefined, { ref: false }),
  ])
  return {
    pid: child.pid ?? 0,
    message,
    kill,
    [Symbol.asyncDispose]: async () => void (await kill()),
  }
}

/** Resolves when a poll was answered. The agent stores the task before its first poll. */
async function polled(exchanges: Pick<ExchangeMark, 'waitFor'>): Promise<void> {
  // After the time limit the step goes on, and its figures are wrong.
  await exchanges.waitFor(isAnsweredPoll, { timeoutMs: TIMEOUT_MS }).catch(() => undefined)
}

function isAnsweredPoll({ rpcMethod, end }: Exchange): boolean {
  return rpcMethod === 'tasks/get' && end === 'complete'
}

/** Executions of nodes, in order. */
async function counted(folder: string): Promise<readonly string[]> {
  const text = await readFile(join(folder, 'nodes.txt'), 'utf8').catch(() => '')
  return text.trim().split('\n')
}

async function untilCounted(folder: string, node: string): Promise<void> {
  const deadline = performance.now() + TIMEOUT_MS
  while (!(await counted(folder)).includes(node) && performance.now() < deadline) await sleep(20)
}
