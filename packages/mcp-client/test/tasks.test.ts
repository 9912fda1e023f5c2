// Calls that a server continues as tasks (the extension io.modelcontextprotocol/tasks of 2026-07-28).
import { once } from 'node:events'
import { deferred } from '@x/mcp-testing'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { isInputRequired, McpClient } from '../src/index.ts'
import type { McpClientError, McpClientOptions, Progress } from '../src/index.ts'
import { rejectionOf, stopClock, textOf } from './setting.ts'
import { given, polled } from './task-setting.ts'

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
      throw new Error('The person is away')
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
      throw new Error('The person is away')
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

describe('time limits of callTool()', () => {
  beforeEach(() => stopClock('performance'))

  test('end a call with its reference after timeoutMs of the call, and do not cancel the task', async () => {
    await using all = await given()
    const { client, server } = all
    const call = rejectionOf(client.callTool('slow_compute', {}, { timeoutMs: 3000 }))
    await polled(server)
    vi.advanceTimersByTime(3000)
    expect(await call).toMatchObject({
      code: 'TIMEOUT',
      outcome: 'unknown',
      task: { taskId: server.lastTask.taskId, tool: 'slow_compute' },
    })
    expect(server.count('tasks/cancel')).toBe(0)
  })

  test('let a task go on after timeoutMs of the client, which limits one request', async () => {
    await using all = await given({ timeoutMs: 1000 })
    const { client, server } = all
    const call = client.callTool('slow_compute')
    await polled(server)
    vi.advanceTimersByTime(1300)
    server.complete('late')
    expect(textOf(await call)).toBe('late')
    expect(server.runs).toEqual(['slow_compute'])
  })
})

describe.concurrent('a server with wrong answers', () => {
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
    await using all = await given({}, { ttlMs: null })
    const { client, server } = all
    server.onGet = (task) => ({ ...task, status: 'input_required', inputRequests: { name: {} } })
    const call = client.callTool('slow_compute')
    expect(await rejectionOf(call)).toMatchObject({ code: 'UNEXPECTED_RESPONSE' })
  })

  test('that sends very long texts: errors and progress are short', async () => {
    await using all = await given()
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
