// Calls that a server continues as tasks (the extension io.modelcontextprotocol/tasks of 2026-07-28).
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { Server, Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { deferred, startLegacyServer, startRecordingProxy, startTaskServer } from '@x/mcp-testing'
import type { Listener, TaskServer, TaskServerOptions } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { isInputRequired, McpClient } from '../src/index.ts'
import type {
  McpClientError,
  McpClientOptions,
  McpTask,
  Progress,
  TaskReference,
} from '../src/index.ts'
import { rejectionOf, textOf } from './setting.ts'
import { startClientProcess } from './start-client-process.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

interface Given extends AsyncDisposable {
  readonly server: TaskServer
  readonly client: McpClient
  /** Questions that the user got. */
  readonly asked: string[]
}

async function given(
  options: McpClientOptions = {},
  serverOptions: TaskServerOptions = {},
): Promise<Given> {
  const server = await startTaskServer(serverOptions)
  const asked: string[] = []
  const handlers: McpClientOptions['handlers'] = {
    elicitation: ({ message }) => {
      asked.push(message)
      return { action: 'accept', content: { value: `re: ${message}` } }
    },
  }
  const client = new McpClient({ url: server.url }, { handlers, ...options })
  return {
    server,
    client,
    asked,
    async [Symbol.asyncDispose]() {
      await client.dispose()
      await server[Symbol.asyncDispose]()
      expect(server.violations).toEqual([])
    },
  }
}

async function startedTask(client: McpClient, tool = 'slow_compute', args = {}): Promise<McpTask> {
  const { task } = await client.startTool(tool, args)
  if (task === undefined) throw new Error('The server has not started a task')
  return task
}

/** As another process gets it. */
function stored({ reference }: McpTask): TaskReference {
  return JSON.parse(JSON.stringify(reference)) as TaskReference
}

const isOfTasks = ({ requested }: Listener): boolean => 'taskIds' in (requested as object)

const polled = (server: TaskServer): Promise<unknown> =>
  server.waitFor(({ rpcMethod, end }) => rpcMethod === 'tasks/get' && end === 'complete')

/** A handler that never answers, and the signal of its first question. */
function silentHandler() {
  const asked = deferred<AbortSignal>()
  const elicitation = (
    _: unknown,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<never> => {
    asked.resolve(signal)
    return new Promise(() => {})
  }
  return { elicitation, asked: asked.promise }
}

describe.concurrent('callTool()', () => {
  test('returns the result of a task like that of any call', async () => {
    await using all = await given()
    const { client, server } = all
    expect(textOf(await client.callTool('greet', { name: 'Ada' }))).toBe('Hello, Ada!')
    const result = await client.callTool('slow_compute', { seconds: 0.02, label: 'done' })
    expect(result).toEqual({ content: [{ type: 'text', text: 'done' }] })
    expect(server.runs).toEqual(['greet', 'slow_compute'])
  })

  test('runs a tool that can only run as a task, and returns the failure that the tool reports', async () => {
    await using all = await given()
    const { isError, content } = await all.client.callTool('failing_job')
    expect(isError).toBe(true)
    expect(content).toEqual([{ type: 'text', text: 'the job failed' }])
  })

  test('rejects with the error of a task that failed', async () => {
    await using all = await given()
    const error = await rejectionOf(all.client.callTool('protocol_error_job'))
    expect(error).toMatchObject({
      code: 'TASK_FAILED',
      outcome: 'unknown',
      tool: 'protocol_error_job',
      cause: { code: -32603 },
    })
    expect(String(error)).toContain('the job broke')
    expect(all.server.runs).toEqual(['protocol_error_job'])
  })

  test('asks the handlers for each question of a task once, also for two at the same time', async () => {
    await using all = await given()
    const { client, server, asked } = all
    const answers = textOf(await client.callTool('multi_input'))
    expect(asked.toSorted((a, b) => a.localeCompare(b))).toEqual(['First name?', 'Last name?'])
    expect(JSON.parse(answers)).toMatchObject({
      first: { action: 'accept', content: { value: 're: First name?' } },
      last: { action: 'accept', content: { value: 're: Last name?' } },
    })
    expect(server.count('tasks/update')).toBe(2)
  })

  test('answers a question before the task, and then waits for the task', async () => {
    await using all = await given()
    const text = textOf(await all.client.callTool('test_tool_with_task'))
    expect(JSON.parse(text)).toMatchObject({ user_name: { action: 'accept' } })
    expect(all.server.runs).toEqual(['test_tool_with_task'])
  })

  test('tells the handler of which call and caller the question is', async () => {
    const caller = { owner: 'ada' }
    const origin = deferred<unknown>()
    const elicitation: NonNullable<McpClientOptions['handlers']>['elicitation'] = (_, context) => {
      origin.resolve(context.origin?.call)
      return { action: 'decline' }
    }
    await using all = await given({ handlers: { elicitation } })
    await all.client.callTool('confirm_delete', {}, { caller })
    expect(await origin.promise).toMatchObject({ tool: 'confirm_delete', caller })
  })

  test('fails if no handler can answer, and a client with a handler continues the task', async () => {
    await using all = await given()
    const { server, client, asked } = all
    const elicitation = (): never => {
      throw new Error('nobody is there')
    }
    await using other = new McpClient({ url: server.url }, { handlers: { elicitation } })
    const error = await rejectionOf(other.callTool('confirm_delete', { filename: 'a' }))
    expect(error).toMatchObject({ code: 'TASK_INPUT', outcome: 'unknown' })
    expect(server.lastTask.status).toBe('input_required')
    const { task } = error as McpClientError
    if (task === undefined) throw new Error('The error has no reference')
    expect(textOf(await client.resumeTask(task).result())).toContain('re: Delete a?')
    expect(asked).toEqual(['Delete a?'])
    expect(server.runs).toEqual(['confirm_delete'])
  })

  test('asks no second time if the answer cannot be given', async () => {
    const asked: string[] = []
    const elicitation = ({ message }: { readonly message: string }): never => {
      asked.push(message)
      throw new Error('nobody is there')
    }
    await using all = await given({ handlers: { elicitation } })
    const error = await rejectionOf(all.client.callTool('confirm_delete', { filename: 'a' }))
    expect(error).toMatchObject({ code: 'TASK_INPUT' })
    expect(asked).toEqual(['Delete a?'])
  })

  test("returns questions with 'surface', and continues with the answers, one after the other", async () => {
    await using all = await given()
    const { client, server, asked } = all
    const surface = { inputRequired: 'surface' } as const
    const first = await client.callTool('multi_input', {}, surface)
    if (!isInputRequired(first)) throw new Error('There is no question')
    expect(Object.keys(first.inputRequests ?? {})).toEqual(['first', 'last'])
    const answer = (key: string): object => ({
      [key]: { action: 'accept', content: { value: key } },
    })
    const resume = { task: first.task, inputResponses: { ...answer('first') } }
    // In another process, from JSON.
    await using other = new McpClient(
      { url: server.url },
      { capabilities: { elicitation: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } } },
    )
    const second = await other.callTool('multi_input', {}, { ...surface, resume })
    if (!isInputRequired(second)) throw new Error('There is no second question')
    expect(Object.keys(second.inputRequests ?? {})).toEqual(['last'])
    expect(second.task?.answeredKeys).toEqual(['first'])
    const last = { task: second.task, inputResponses: { ...answer('last') } }
    const ofOtherTool = other.callTool('confirm_delete', {}, { ...surface, resume: last })
    expect(await rejectionOf(ofOtherTool)).toMatchObject({ code: 'TASK_REFERENCE' })
    const result = await other.callTool('multi_input', {}, { ...surface, resume: last })
    if (isInputRequired(result)) throw new Error('There is a third question')
    expect(JSON.parse(textOf(result))).toMatchObject({ first: {}, last: {} })
    expect(server.runs).toEqual(['multi_input'])
    expect(asked).toEqual([])
  })

  test('cancels the task on abort, and rejects with the reason', async () => {
    await using all = await given()
    const { client, server } = all
    const caller = new AbortController()
    const call = client.callTool('slow_compute', {}, { signal: caller.signal })
    await polled(server)
    caller.abort(new Error('enough'))
    expect(await rejectionOf(call)).toBe(caller.signal.reason)
    expect(server.lastTask.status).toBe('cancelled')
  })

  test('aborts the handler when somebody else has answered', async () => {
    const { elicitation, asked } = silentHandler()
    await using all = await given({ handlers: { elicitation } })
    const call = all.client.callTool('confirm_delete')
    const signal = await asked
    all.server.complete('answered elsewhere')
    expect(textOf(await call)).toBe('answered elsewhere')
    expect(signal.aborted).toBe(true)
    expect(all.server.count('tasks/update')).toBe(0)
  })

  test('aborts the handler when its question is no longer open, and waits on', async () => {
    const { elicitation, asked } = silentHandler()
    await using all = await given({ handlers: { elicitation } })
    const call = all.client.callTool('confirm_delete')
    const signal = await asked
    const aborted = once(signal, 'abort')
    all.server.change({ status: 'working', inputRequests: {} })
    await aborted
    all.server.complete('done')
    expect(textOf(await call)).toBe('done')
  })

  test('rejects with the reference after timeoutMs of the call, and does not cancel the task', async () => {
    await using all = await given()
    const { client, server } = all
    const error = await rejectionOf(client.callTool('slow_compute', {}, { timeoutMs: 300 }))
    expect(error).toMatchObject({
      code: 'TIMEOUT',
      outcome: 'unknown',
      task: { taskId: server.lastTask.taskId, tool: 'slow_compute' },
    })
    expect(server.count('tasks/cancel')).toBe(0)
  })

  test('waits longer than timeoutMs of the client, which limits one request', async () => {
    await using all = await given({ timeoutMs: 400 })
    const { client, server } = all
    const call = client.callTool('slow_compute', { seconds: 0.7, label: 'late' })
    expect(textOf(await call)).toBe('late')
    expect(server.runs).toEqual(['slow_compute'])
  })

  test('reports each status message as progress once', async () => {
    await using all = await given()
    const { client, server } = all
    const seen: Progress[] = []
    const halfway = deferred()
    const onProgress = (progress: Progress): void => {
      seen.push(progress)
      if (progress.message === 'halfway') halfway.resolve()
    }
    const call = client.callTool('slow_compute', {}, { onProgress })
    await polled(server)
    server.change({ statusMessage: 'halfway' })
    await halfway.promise
    server.complete('done')
    await call
    expect(seen).toEqual([
      { progress: 1, message: 'computing' },
      { progress: 2, message: 'halfway' },
    ])
  })

  test('checks the output of a task against the schema of the tool', async () => {
    await using all = await given()
    const { client, server } = all
    await client.listTools()
    const call = client.callTool('typed_compute')
    await server.waitFor(({ toolName, end }) => toolName !== undefined && end === 'complete')
    server.change({ status: 'completed', result: { content: [], structuredContent: { sum: 'x' } } })
    expect(await rejectionOf(call)).toMatchObject({ code: 'INVALID_OUTPUT', outcome: 'executed' })
  })

  test('accepts a result without resultType', async () => {
    await using all = await given()
    const { server, client } = all
    server.onGet = ({ result, ...task }) => {
      const bare = { ...(result as object), resultType: undefined }
      return { ...task, resultType: undefined, ...(result === undefined ? {} : { result: bare }) }
    }
    const result = await client.callTool('slow_compute', { seconds: 0.02 })
    expect(textOf(result)).toBe('computed')
  })
})

describe.concurrent('a poll', () => {
  const failures = [
    ['status 503', { instead: { status: 503, body: 'busy' } }],
    ['a reset connection', { instead: 'reset' }],
    ['a cut answer', { answer: 'cut' }],
    [
      'an internal error',
      { instead: { status: 200, body: (id: unknown): string => rpcError(id, -32603) } },
    ],
  ] as const

  test.each(failures)('is repeated after %s', async (_what, fault) => {
    await using all = await given()
    const { client, server } = all
    server.inject({ method: 'tasks/get', times: 2, ...fault })
    expect(textOf(await client.callTool('slow_compute', { seconds: 0.02 }))).toBe('computed')
    expect(server.runs).toEqual(['slow_compute'])
    expect(server.count('tasks/get')).toBeGreaterThan(2)
  })

  test('is repeated no sooner than the error of the server says', async () => {
    const waits: number[] = []
    const wait = (ms: number): Promise<void> => {
      waits.push(ms)
      return new Promise((resolve) => setImmediate(resolve))
    }
    await using all = await given({ retryTiming: { random: () => 0, wait } })
    const { client, server } = all
    const body = (id: unknown): string => {
      const error = { code: -32603, message: 'Not now', data: { retryAfterMs: 7000 } }
      return JSON.stringify({ jsonrpc: '2.0', id, error })
    }
    server.inject({ method: 'tasks/get', times: 1, instead: { status: 200, body } })
    expect(textOf(await client.callTool('slow_compute', { seconds: 0.02 }))).toBe('computed')
    expect(Math.max(...waits)).toBeGreaterThanOrEqual(7000)
  })

  test('is repeated while the server restarts', async () => {
    await using all = await given()
    const { client, server } = all
    const call = client.callTool('slow_compute')
    await polled(server)
    await server.restart()
    server.complete('survived')
    expect(textOf(await call)).toBe('survived')
    expect(server.runs).toEqual(['slow_compute'])
  })

  test('is refused with another task, and the call rejects without its data', async () => {
    await using all = await given()
    const { client, server } = all
    server.onGet = (task) => ({
      ...task,
      taskId: 'somebody-elses',
      status: 'completed',
      result: { content: [{ type: 'text', text: 'secret' }] },
    })
    const error = await rejectionOf(client.callTool('slow_compute'))
    expect(error).toMatchObject({ code: 'UNEXPECTED_RESPONSE', outcome: 'unknown' })
    expect(String(error)).not.toContain('secret')
  })

  test('says that the task expired if the server has forgotten it, and the tool is not called again', async () => {
    await using all = await given({ maxRetries: 5 }, { honoursKeys: true })
    const { client, server } = all
    const call = client.callTool('slow_compute', {}, { idempotencyKey: 'k' })
    await polled(server)
    server.tasks.clear()
    expect(await rejectionOf(call)).toMatchObject({ code: 'TASK_EXPIRED', outcome: 'unknown' })
    expect(server.runs).toEqual(['slow_compute'])
  })

  test('goes on until the time to live ends while the server is away', async () => {
    await using all = await given({}, { ttlMs: 600 })
    const { client, server } = all
    const call = client.callTool('slow_compute')
    await polled(server)
    server.inject({ method: 'tasks/get', times: 1000, instead: { status: 503 } })
    expect(await rejectionOf(call)).toMatchObject({ code: 'TASK_EXPIRED', outcome: 'unknown' })
  })

  test.each([0, 1, 300])(
    'goes on while the server keeps the task beyond its ttlMs of %i',
    async (ttlMs) => {
      await using all = await given({}, { ttlMs, notifies: false })
      const { client, server } = all
      const result = await client.callTool('slow_compute', { seconds: 0.5, label: 'late' })
      expect(textOf(result)).toBe('late')
      expect(server.count('tasks/get')).toBeLessThan(12)
    },
  )

  test.each([401, 403, 404])('is not repeated after status %i', async (status) => {
    await using all = await given()
    const { client, server } = all
    server.inject({ method: 'tasks/get', times: 1000, instead: { status, body: 'no' } })
    const error = await rejectionOf(client.callTool('slow_compute'))
    expect(error).toMatchObject({ outcome: 'unknown', task: { tool: 'slow_compute' } })
    expect(server.count('tasks/get')).toBe(1)
  })

  test('is sent at the interval of the server, never below 100 ms, with jitter upwards', async () => {
    const waits: number[] = []
    const retryTiming = {
      random: () => 1,
      wait: (ms: number): Promise<void> => {
        waits.push(ms)
        return new Promise((resolve) => setImmediate(resolve))
      },
    }
    await using all = await given(
      { retryTiming },
      { pollIntervalMs: 5, ttlMs: null, notifies: false },
    )
    const call = all.client.callTool('slow_compute')
    await polled(all.server)
    all.server.onGet = (task) => ({ ...task, pollIntervalMs: 1e9 })
    await all.server.waitFor(() => waits.length > 4)
    all.server.complete('done')
    await call
    const [first = 0] = waits
    const last = waits.at(-1) ?? 0
    // Polls start at multiples of 100 ms.
    expect(first).toBeGreaterThanOrEqual(125)
    expect(first).toBeLessThanOrEqual(225)
    expect(last).toBeGreaterThanOrEqual(75_000)
    expect(last).toBeLessThanOrEqual(75_100)
  })

  test('is sent later with many tasks: at most 250 times a second for all of them', async () => {
    const waits: number[] = []
    const retryTiming = {
      random: () => 0,
      wait: (ms: number, signal: AbortSignal): Promise<void> => {
        waits.push(ms)
        return sleep(ms, undefined, { signal })
      },
    }
    await using all = await given({ retryTiming }, { notifies: false })
    const { client, server } = all
    const started = await Promise.all(Array.from({ length: 100 }, () => startedTask(client)))
    const results = Promise.all(started.map((task) => task.result()))
    await server.waitFor(() => waits.length >= 200)
    for (const task of server.tasks.values()) server.complete('done', task)
    await results
    const later = waits.slice(100, 200)
    expect(Math.min(...later)).toBeGreaterThanOrEqual(400)
    expect(Math.max(...later)).toBeLessThanOrEqual(500)
  })
})

describe.concurrent('beside a listen stream', () => {
  test.each([
    [0, 10_000],
    [1, 20_000],
  ])('polls are 10 to 20 s apart: with random number %i after %i ms', async (random, ms) => {
    const slow = deferred<number>()
    const retryTiming = {
      random: () => random,
      wait: async (waitMs: number): Promise<void> => {
        if (waitMs > 5000) slow.resolve(waitMs)
        await sleep(Math.min(waitMs, 50))
      },
    }
    await using all = await given({ retryTiming })
    const call = all.client.callTool('slow_compute')
    const waitMs = await slow.promise
    expect(waitMs).toBeGreaterThanOrEqual(ms)
    expect(waitMs).toBeLessThanOrEqual(ms + 100)
    all.server.complete('done')
    await call
  })

  test('a status line is reported, and the wait for the next poll goes on', async () => {
    const slow = deferred()
    let waits = 0
    const retryTiming = {
      random: () => 0,
      wait: (ms: number, signal: AbortSignal): Promise<void> => {
        waits += 1
        if (ms > 5000) slow.resolve()
        return sleep(ms, undefined, { signal })
      },
    }
    await using all = await given({ retryTiming })
    const reported = deferred()
    const onProgress = ({ message }: Progress): void => {
      if (message === 'second') reported.resolve()
    }
    const call = all.client.callTool('slow_compute', {}, { onProgress })
    await slow.promise
    const before = waits
    all.server.change({ statusMessage: 'first' })
    all.server.change({ statusMessage: 'second' })
    await reported.promise
    await sleep(20)
    expect(waits).toBe(before)
    all.server.complete('done')
    expect(textOf(await call)).toBe('done')
  })

  test('polls are frequent again when the stream ends', async () => {
    const slow = deferred()
    const retryTiming = {
      random: () => 0,
      wait: (ms: number, signal: AbortSignal): Promise<void> => {
        if (ms > 5000) slow.resolve()
        return sleep(ms > 5000 ? 60_000 : ms, undefined, { signal })
      },
    }
    await using all = await given({ retryTiming })
    const { client, server } = all
    const call = client.callTool('slow_compute')
    await slow.promise
    const { lastTask: task } = server
    const result = { content: [{ type: 'text', text: 'polled' }] }
    server.tasks.set(task.taskId, { ...task, status: 'completed', result })
    server.listeners.find(isOfTasks)?.drop()
    expect(textOf(await call)).toBe('polled')
  })

  test('the client polls slowly, and gets the result from the stream', async () => {
    await using all = await given()
    const { client, server } = all
    const call = client.callTool('slow_compute')
    const listener = await server.waitForListener(isOfTasks, { timeoutMs: 5000 })
    expect(listener.requested).toEqual({ taskIds: [server.lastTask.taskId] })
    // One poll may be on its way. From then on, polls are 10 s apart.
    await server.waitFor(({ rpcMethod, end }) => rpcMethod === 'tasks/get' && end === 'complete')
    const polls = server.count('tasks/get')
    server.change({ statusMessage: 'soon' })
    server.complete('pushed')
    expect(textOf(await call)).toBe('pushed')
    expect(server.count('tasks/get')).toBeLessThanOrEqual(polls + 1)
    await server.waitForListener((one) => isOfTasks(one) && !one.isOpen)
  })

  test('of a server that does not send notifications, the client goes on polling', async () => {
    await using all = await given({}, { notifies: false })
    const { client, server } = all
    const call = client.callTool('slow_compute')
    await server.waitForListener((one) => isOfTasks(one) && !one.isOpen, { timeoutMs: 5000 })
    server.complete('polled')
    expect(textOf(await call)).toBe('polled')
  })

  test('of a server that accepts some of the tasks, the client opens one stream, and polls the others', async () => {
    await using all = await given()
    const { client, server } = all
    let streams = 0
    server.acknowledge = (requested) => {
      const { taskIds } = requested as { readonly taskIds?: readonly string[] }
      if (taskIds !== undefined) streams += 1
      return { taskIds: taskIds?.slice(0, 1) }
    }
    const calls = [client.callTool('slow_compute'), client.callTool('slow_compute')]
    await server.waitForListener(isOfTasks, { timeoutMs: 5000 })
    // Each poll of the second task could open a stream, one second after the last one.
    await sleep(2500)
    expect(streams).toBe(1)
    for (const task of server.tasks.values()) server.complete('done', task)
    expect((await Promise.all(calls)).map(textOf)).toEqual(['done', 'done'])
  })

  test('the first final status counts', async () => {
    await using all = await given()
    const { client, server } = all
    const task = await startedTask(client)
    const result = task.result()
    await server.waitForListener(isOfTasks, { timeoutMs: 5000 })
    server.complete('first')
    server.change({ status: 'failed', error: { code: 1, message: 'second' } })
    expect(textOf(await result)).toBe('first')
    expect(textOf(await task.result())).toBe('first')
  })
})

describe.concurrent('startTool() and resumeTask()', () => {
  test('return a result, or a task that another client continues, without a second call', async () => {
    await using all = await given()
    const { client, server } = all
    expect(await client.startTool('greet', { name: 'Ada' })).toMatchObject({ result: {} })
    const task = await startedTask(client)
    expect(await task.status()).toMatchObject({ status: 'working', statusMessage: 'computing' })
    await client.dispose()
    expect(server.count('tasks/cancel')).toBe(0)
    await using other = new McpClient({ url: server.url })
    const result = other.resumeTask(stored(task)).result()
    server.complete('in another process')
    expect(textOf(await result)).toBe('in another process')
    expect(server.runs).toEqual(['greet', 'slow_compute'])
  })

  test('continue a task in another process after kill -9', async () => {
    await using server = await startTaskServer()
    await using folder = await makeTemporaryFolder()
    await using first = await startClientProcess(server.url, join(folder.path, '1.json'))
    const reference = await first.ask('task')
    const lost = first.ask(`wait ${JSON.stringify(reference)}`).catch(() => 'lost')
    await polled(server)
    await first.kill()
    expect(await lost).toBe('lost')
    await using second = await startClientProcess(server.url, join(folder.path, '2.json'))
    const result = second.ask(`wait ${JSON.stringify(reference)}`)
    server.complete('after the crash')
    expect(await result).toMatchObject({ content: [{ text: 'after the crash' }] })
    expect(server.runs).toEqual(['slow_compute'])
  })

  test('poll once for concurrent callers, and never show an older status after a newer one', async () => {
    await using all = await given()
    const { client, server } = all
    const task = await startedTask(client)
    server.change({ statusMessage: 'new' })
    const [one, other] = await Promise.all([task.status(), task.status()])
    expect([one, other]).toMatchObject([{ statusMessage: 'new' }, { statusMessage: 'new' }])
    expect(server.count('tasks/get')).toBe(1)
    const lastUpdatedAt = new Date(0).toISOString()
    server.onGet = (answer) => ({ ...answer, lastUpdatedAt, statusMessage: 'old' })
    expect(await task.status()).toMatchObject({ statusMessage: 'new' })
  })

  test('let two clients wait for one task', async () => {
    await using all = await given()
    await using other = new McpClient({ url: all.server.url })
    const task = await startedTask(all.client)
    const results = [task.result(), task.result(), other.resumeTask(stored(task)).result()]
    all.server.complete('for all')
    expect((await Promise.all(results)).map(textOf)).toEqual(['for all', 'for all', 'for all'])
    expect(all.server.runs).toEqual(['slow_compute'])
  })

  test('do not ask again what was answered before the restart', async () => {
    await using all = await given()
    const { client, server, asked } = all
    const task = await startedTask(client, 'multi_input')
    const changed = deferred<TaskReference>()
    task.on('change', ({ reference }) => {
      if (reference.answeredKeys.length === 2) changed.resolve(reference)
    })
    await task.result()
    const { tasks } = server
    // The server has not processed the answers yet.
    tasks.set(server.lastTask.taskId, {
      ...server.lastTask,
      status: 'input_required',
      inputRequests: { first: {}, last: {} },
      result: undefined,
    })
    await using other = new McpClient({ url: server.url })
    const result = other.resumeTask(await changed.promise).result()
    await polled(server)
    server.complete('processed')
    expect(textOf(await result)).toBe('processed')
    expect(asked).toHaveLength(2)
  })

  test('answer() sends answers to some questions', async () => {
    await using all = await given()
    const { client, server } = all
    const task = await startedTask(client, 'multi_input')
    await task.answer({ first: { action: 'decline' } })
    expect(await task.status()).toMatchObject({ inputRequests: { last: {} } })
    const resume = { task: stored(task), inputResponses: { last: { action: 'cancel' } } }
    const again = await client.startTool('multi_input', {}, { resume })
    expect(JSON.parse(textOf((await again.task?.result()) ?? { content: [] }))).toEqual({
      first: { action: 'decline' },
      last: { action: 'cancel' },
    })
    expect(server.runs).toEqual(['multi_input'])
  })

  test('say that the task has expired if an answer comes too late', async () => {
    const elicitation = (): { action: 'decline' } => {
      all.server.tasks.clear()
      return { action: 'decline' }
    }
    await using all = await given({ handlers: { elicitation } })
    const error = await rejectionOf(all.client.callTool('confirm_delete'))
    expect(error).toMatchObject({ code: 'TASK_EXPIRED', outcome: 'unknown' })
  })

  test('cancel() ends the task', async () => {
    await using all = await given()
    const task = await startedTask(all.client)
    const result = rejectionOf(task.result())
    await task.cancel()
    expect(await result).toMatchObject({ code: 'TASK_CANCELLED', outcome: 'unknown' })
  })

  test('disposing of the client does not cancel the task', async () => {
    await using all = await given()
    const task = await startedTask(all.client)
    const result = rejectionOf(task.result())
    await polled(all.server)
    await all.client.dispose()
    expect(await result).toMatchObject({ code: 'CLOSED', task: { taskId: task.reference.taskId } })
    expect(all.server.lastTask.status).toBe('working')
  })

  test('reject at once when the client is disposed of between two polls, and stay closed', async () => {
    const asks = deferred<unknown>()
    const aborted = deferred<unknown>()
    await using all = await given(
      {
        handlers: {
          elicitation: (_request, { signal }) =>
            new Promise((_resolve, reject) => {
              asks.resolve(undefined)
              signal.addEventListener('abort', () => {
                aborted.resolve(undefined)
                reject(new Error('stopped'))
              })
            }),
        },
      },
      { pollIntervalMs: 60_000 },
    )
    const { client, server } = all
    const call = rejectionOf(client.callTool('slow_compute'))
    await server.waitForListener(isOfTasks, { timeoutMs: 5000 })
    const [working] = server.tasks.values()
    const asking = rejectionOf(client.callTool('confirm_delete'))
    await asks.promise
    await client.dispose()
    expect(await call).toMatchObject({ code: 'CLOSED', task: { taskId: working?.taskId } })
    expect(await asking).toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
    await aborted.promise
    expect(server.count('tasks/cancel')).toBe(0)
    expect(client.isClientInitialized).toBe(false)
  })

  test('refuse a reference of another server, and send nothing there', async () => {
    await using all = await given()
    await using other = await startTaskServer()
    await using stranger = new McpClient({ url: other.url })
    const reference = stored(await startedTask(all.client))
    const error = await rejectionOf(stranger.resumeTask(reference).result())
    expect(error).toMatchObject({ code: 'TASK_REFERENCE', outcome: 'unknown' })
    expect(other.count('tasks/get')).toBe(0)
  })

  test('refuse a reference of another principal, and send nothing', async () => {
    await using all = await given({ scope: { principal: 'ada' } })
    const reference = stored(await startedTask(all.client))
    await using other = new McpClient({ url: all.server.url }, { scope: { principal: 'eve' } })
    for (const task of [other.resumeTask(reference), other.resumeTask({ ...reference })]) {
      for (const use of [task.result(), task.status(), task.cancel()]) {
        expect(await rejectionOf(use)).toMatchObject({ code: 'TASK_REFERENCE' })
      }
    }
    expect(all.server.count('tasks/get')).toBe(0)
    expect(all.server.count('tasks/cancel')).toBe(0)
  })

  test('refuse a task in a scope that has changed since', async () => {
    let principal = 'ada'
    await using all = await given({ scope: () => ({ principal }) })
    const task = await startedTask(all.client)
    principal = 'eve'
    expect(await rejectionOf(task.result())).toMatchObject({ code: 'TASK_REFERENCE' })
  })

  test.each([
    ['nothing', undefined],
    ['a text', 'x'],
    ['another version', { v: 2 }],
    ['an empty object', {}],
    ['no task id', { ...someReference(), taskId: '' }],
    ['a wrong date', { ...someReference(), expiresAt: 'soon' }],
    ['a wrong list', { ...someReference(), answeredKeys: 'all' }],
  ])('refuse %s as a reference', async (_what, value) => {
    await using client = new McpClient({ url: 'http://127.0.0.1:1/mcp' })
    const error = await rejectionOf(
      Promise.resolve().then(() => client.resumeTask(value as TaskReference)),
    )
    expect(error).toMatchObject({ code: 'TASK_REFERENCE', outcome: 'unknown' })
  })

  test('say that the server does not know the task', async () => {
    await using all = await given()
    const task = await startedTask(all.client)
    all.server.tasks.clear()
    await using other = new McpClient({ url: all.server.url })
    const error = await rejectionOf(other.resumeTask(stored(task)).result())
    expect(error).toMatchObject({ code: 'TASK_UNKNOWN', outcome: 'unknown' })
  })

  test('say that the server has changed to a revision without these tasks', async () => {
    await using all = await given()
    await using legacy = await startLegacyServer()
    let target = all.server.url
    await using proxy = await startRecordingProxy(() => target)
    await using client = new McpClient({ url: proxy.url })
    const task = await startedTask(client)
    target = legacy.url
    const error = await rejectionOf(task.result())
    expect(error).toMatchObject({ code: 'TASK_UNKNOWN', outcome: 'unknown' })
    expect(String(error)).toContain('2025-11-25')
    expect(legacy.count('tools/call')).toBe(0)
    const polls = legacy.count('tasks/get') // one has found out
    await using fresh = new McpClient({ url: proxy.url })
    const again = await rejectionOf(fresh.resumeTask(stored(task)).result())
    expect(again).toMatchObject({ code: 'TASK_UNKNOWN' })
    expect(legacy.count('tasks/get')).toBe(polls)
  })

  test('wait for a server that is away at first', async () => {
    await using all = await given()
    const { client, server } = all
    const task = await startedTask(client)
    let isAway = true
    await using proxy = await startRecordingProxy(server.url)
    proxy.inject({ match: () => isAway, times: 1000, action: { status: 503, body: 'away' } })
    await using other = new McpClient({ url: proxy.url })
    const reference = { ...stored(task), server: proxy.url }
    const result = other.resumeTask(reference).result()
    await proxy.waitFor(({ status }) => status === 503)
    isAway = false
    server.complete('back')
    expect(textOf(await result)).toBe('back')
  })
})

/** Forwards connections to a server while it is open. While it is closed, its port refuses connections. */
async function startGate(url: string) {
  const target = Number(new URL(url).port)
  const sockets = new Set<Socket>()
  const listen = async (port: number): Promise<Server> => {
    const server = createServer((socket) => {
      const other = connect(target, '127.0.0.1')
      for (const one of [socket, other]) {
        sockets.add(one)
        one.on('error', () => {})
        one.on('close', () => (one === socket ? other : socket).destroy())
      }
      socket.pipe(other).pipe(socket)
    }).listen(port, '127.0.0.1')
    await once(server, 'listening')
    return server
  }
  let server = await listen(0)
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The gate has no port')
  const { port } = address
  const close = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    for (const socket of sockets) socket.destroy()
    sockets.clear()
    await closed
  }
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close,
    async open() {
      server = await listen(port)
    },
    async [Symbol.asyncDispose]() {
      if (server.listening) await close()
    },
  }
}

/** Short pauses between polls, and the end of so many of them. */
function shortPauses(count: number) {
  const done = deferred()
  let pauses = 0
  const wait = async (_ms: number, signal: AbortSignal): Promise<void> => {
    await sleep(10, undefined, { signal })
    if (++pauses === count) done.resolve()
  }
  return { retryTiming: { random: () => 0, wait }, done: done.promise }
}

describe.concurrent('a server that is away', () => {
  test.each([429, 500, 502, 503])(
    'delays a resumed task while it answers the handshake with status %i',
    async (status) => {
      await using all = await given()
      const { client, server } = all
      const task = await startedTask(client)
      let isAway = true
      await using proxy = await startRecordingProxy(server.url)
      proxy.inject({ match: () => isAway, times: 1000, action: { status, body: 'away' } })
      const { retryTiming, done } = shortPauses(1)
      await using other = new McpClient({ url: proxy.url }, { retryTiming })
      const result = other.resumeTask({ ...stored(task), server: proxy.url }).result()
      // The first handshake has failed.
      await Promise.race([done, result])
      isAway = false
      server.complete('back')
      expect(textOf(await result)).toBe('back')
    },
  )

  test('delays a resumed task while it refuses connections', async () => {
    await using all = await given()
    await using gate = await startGate(all.server.url)
    const task = await startedTask(all.client)
    await gate.close()
    const { retryTiming, done } = shortPauses(5)
    await using other = new McpClient({ url: gate.url }, { retryTiming })
    const result = other.resumeTask({ ...stored(task), server: gate.url }).result()
    await Promise.race([done, result])
    await gate.open()
    all.server.complete('back')
    expect(textOf(await result)).toBe('back')
    expect(all.server.runs).toEqual(['slow_compute'])
  })

  test('delays a call whose polls it refuses', async () => {
    await using all = await given()
    await using gate = await startGate(all.server.url)
    const { retryTiming, done } = shortPauses(10)
    await using other = new McpClient({ url: gate.url }, { retryTiming })
    const result = other.callTool('slow_compute')
    await polled(all.server)
    await gate.close()
    await Promise.race([done, result])
    await gate.open()
    all.server.complete('back')
    expect(textOf(await result)).toBe('back')
    expect(all.server.runs).toEqual(['slow_compute'])
  })

  test('does not delay a resumed task beyond timeoutMs: the error says why, and has the reference', async () => {
    await using all = await given()
    await using gate = await startGate(all.server.url)
    const reference = { ...stored(await startedTask(all.client)), server: gate.url }
    await gate.close()
    await using other = new McpClient({ url: gate.url })
    const error = await rejectionOf(other.resumeTask(reference).result({ timeoutMs: 200 }))
    expect(error).toMatchObject({
      code: 'TIMEOUT',
      outcome: 'unknown',
      task: reference,
      cause: { code: 'UNREACHABLE' },
    })
    expect(String(error)).toMatch(/may still be running.*ECONNREFUSED.*resumeTask\(\)/u)
  })

  test('does not delay an abort', async () => {
    await using all = await given()
    await using gate = await startGate(all.server.url)
    const reference = { ...stored(await startedTask(all.client)), server: gate.url }
    await gate.close()
    const { retryTiming, done } = shortPauses(1)
    await using other = new McpClient({ url: gate.url }, { retryTiming })
    const abort = new AbortController()
    const result = rejectionOf(other.resumeTask(reference).result({ signal: abort.signal }))
    await done
    const reason = new Error('enough')
    const abortedAt = performance.now()
    abort.abort(reason)
    expect(await result).toBe(reason)
    // A server that can be reached has 1 s to answer the cancellation.
    expect(performance.now() - abortedAt).toBeLessThan(800)
  })

  test.each([401, 403, 404])(
    'is not awaited if it refuses the handshake with status %i',
    async (status) => {
      await using all = await given()
      const task = await startedTask(all.client)
      await using proxy = await startRecordingProxy(all.server.url)
      proxy.inject({ match: () => true, times: 1000, action: { status, body: 'no' } })
      const wait = (): Promise<never> => Promise.reject(new Error('The client waited'))
      await using other = new McpClient(
        { url: proxy.url },
        { retryTiming: { random: () => 0, wait } },
      )
      const reference = { ...stored(task), server: proxy.url }
      const error = await rejectionOf(other.resumeTask(reference).result())
      const code = status === 404 ? 'REJECTED' : 'UNAUTHORIZED'
      expect(error).toMatchObject({ code, outcome: 'unknown', task: reference })
    },
  )
})

function someReference(): TaskReference {
  return {
    v: 1,
    server: 'http://127.0.0.1:1/mcp',
    principal: null,
    taskId: 't',
    tool: 'x',
    protocolVersion: '2026-07-28',
    createdAt: new Date().toISOString(),
    expiresAt: null,
    idempotencyKey: null,
    answeredKeys: [],
  }
}

function rpcError(id: unknown, code: number): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message: 'try later' } })
}

describe.concurrent('a server with wrong answers', () => {
  const longAgo = new Date(0).toISOString()

  test('whose clocks differ: the result and the questions count all the same', async () => {
    await using all = await given({}, { ttlMs: 5000, notifies: false })
    const { client, server, asked } = all
    // The process that answers the polls is behind the one that created the task.
    server.onGet = (task) => ({ ...task, lastUpdatedAt: longAgo })
    expect(textOf(await client.callTool('slow_compute', { seconds: 0.02 }))).toBe('computed')
    const task = await startedTask(client)
    const result = task.result()
    await polled(server)
    server.change({
      status: 'input_required',
      inputRequests: {
        name: {
          method: 'elicitation/create',
          params: { message: 'Name?', requestedSchema: { type: 'object', properties: {} } },
        },
      },
    })
    expect(textOf(await result)).toContain('re: Name?')
    expect(asked).toEqual(['Name?'])
  })

  test('that asks a hundred questions at once: at most eight handlers run at the same time', async () => {
    let running = 0
    let most = 0
    const elicitation = async (): Promise<{ action: 'decline' }> => {
      most = Math.max(most, ++running)
      await new Promise((resolve) => setImmediate(resolve))
      running--
      return { action: 'decline' }
    }
    await using all = await given({ handlers: { elicitation } }, { ttlMs: null })
    const { client, server } = all
    const call = client.callTool('confirm_delete', { filename: 'a' })
    await polled(server)
    const [question] = Object.values(server.lastTask.inputRequests ?? {})
    const keys = Array.from({ length: 100 }, (_, index) => `q${index}`)
    const inputRequests = Object.fromEntries(keys.map((key) => [key, question ?? {}]))
    server.change({ status: 'input_required', inputRequests })
    expect(Object.keys(JSON.parse(textOf(await call)) as object)).toHaveLength(100)
    expect(most).toBeLessThanOrEqual(8)
  })

  test('that asks without a valid question: the call rejects', async () => {
    await using all = await given({}, { ttlMs: null, notifies: false })
    const { client, server } = all
    server.onGet = (task) => ({ ...task, status: 'input_required', inputRequests: { name: {} } })
    const call = client.callTool('slow_compute', {}, { timeoutMs: 3000 })
    expect(await rejectionOf(call)).toMatchObject({ code: 'UNEXPECTED_RESPONSE' })
  })

  test('that sends very long texts: errors and progress are short', async () => {
    await using all = await given({}, { notifies: false })
    const { client, server } = all
    const long = 'x'.repeat(500_000)
    const seen: (string | undefined)[] = []
    const onProgress = ({ message }: Progress): void => void seen.push(message)
    server.onGet = (task) => ({ ...task, status: 'cancelled', statusMessage: long })
    const cancelled = await rejectionOf(client.callTool('slow_compute', {}, { onProgress }))
    expect(String(cancelled).length).toBeLessThan(5000)
    server.onGet = (task) => ({ ...task, status: 'failed', error: { code: 1, message: long } })
    const failed = await rejectionOf(client.callTool('slow_compute', {}, { onProgress }))
    expect(String(failed).length).toBeLessThan(5000)
    expect(seen.every((message = '') => message.length < 5000)).toBe(true)
  })
})
