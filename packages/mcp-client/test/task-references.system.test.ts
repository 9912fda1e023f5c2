// Tasks that are started and continued by their references, also in other processes.
import { join } from 'node:path'
import { temporaryFolder } from '@x/internal/testing'
import { deferred, startLegacyServer, startRecordingProxy, startTaskServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { McpClient } from '../src/index.ts'
import type { TaskReference } from '../src/index.ts'
import { rejectionOf, textOf } from './setting.ts'
import { startClientProcess } from './start-client-process.ts'
import { given, polled, startedTask, stored } from './task-setting.ts'

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
    await using folder = await temporaryFolder()
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

  test('poll once for concurrent callers', async () => {
    await using all = await given()
    const { client, server } = all
    const task = await startedTask(client)
    server.change({ statusMessage: 'new' })
    const [one, other] = await Promise.all([task.status(), task.status()])
    expect([one, other]).toMatchObject([{ statusMessage: 'new' }, { statusMessage: 'new' }])
    expect(server.count('tasks/get')).toBe(1)
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
    await server.waitFor(({ rpcMethod, end }) => rpcMethod === 'tools/call' && end === 'complete')
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

  test('continue a task of a server that was taken for one with sessions', async () => {
    await using all = await given()
    await using legacy = await startLegacyServer()
    let target = all.server.url
    await using proxy = await startRecordingProxy(() => target)
    await using client = new McpClient({ url: proxy.url })
    const task = await startedTask(client)
    all.server.complete('in the end')
    target = legacy.url
    await using fresh = new McpClient({ url: proxy.url })
    await fresh.ping()
    target = all.server.url
    proxy.inject({ match: ({ httpMethod }) => httpMethod === 'DELETE', action: { status: 200 } })
    const again = fresh.resumeTask(stored(task))
    expect(textOf(await again.result())).toBe('in the end')
    expect(legacy.count('tasks/get')).toBe(0)
  })

  test('continue a task for concurrent callers once the revision is detected again', async () => {
    await using all = await given()
    await using legacy = await startLegacyServer()
    const task = await startedTask(all.client)
    all.server.complete('in the end')
    await using proxy = await startRecordingProxy(() =>
      legacy.count('notifications/initialized') > 0 ? all.server.url : legacy.url,
    )
    proxy.inject({ match: ({ httpMethod }) => httpMethod !== 'POST', action: { status: 405 } })
    await using fresh = new McpClient({ url: proxy.url })
    const again = fresh.resumeTask({ ...stored(task), server: proxy.url })
    const [result] = await Promise.all([again.result(), again.cancel()])
    expect(textOf(result)).toBe('in the end')
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
