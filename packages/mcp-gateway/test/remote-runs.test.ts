import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { OpenResources } from '@x/internal/testing'
import { afterAll, describe, expect, test, vi } from 'vitest'

import { langGraphServerSource } from '../src/agents/langgraph-server.ts'
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'
import { answered, asking, startRemoteLangGraph } from './remote-langgraph.ts'
import {
  begunTask,
  settledTask,
  startKillableGateway,
  type KillableGateway as Process,
} from './killable-gateway.ts'
import { cancel, get, update, type Json } from './task-requests.ts'

const folder = await mkdtemp(join(tmpdir(), 'remote-runs-'))
afterAll(() => rm(folder, { recursive: true, force: true }))
let stores = 0

/** Two gateways over one SQLite store, with the agent of one LangGraph server. */
async function newWorld() {
  const resources = new OpenResources()
  const server = resources.use(await startRemoteLangGraph())
  const store = resources.use(new DiskGatewayStore(join(folder, String(++stores))))
  const startProcess = (): Process => {
    return resources.use(
      startKillableGateway(store, (dying) =>
        langGraphServerSource({
          url: server.url,
          fetch: (input, init) => {
            const signals = [dying, ...(init?.signal ? [init.signal] : [])]
            return fetch(input, { ...init, signal: AbortSignal.any(signals) })
          },
        }),
      ),
    )
  }
  return {
    server,
    startProcess,
    [Symbol.asyncDispose]: () => resources[Symbol.asyncDispose](),
  }
}

type World = Awaited<ReturnType<typeof newWorld>>

/** `expect.poll()` does not know which of several concurrent tests calls it. */
const until = (isTrue: () => boolean): Promise<unknown> =>
  vi.waitUntil(isTrue, { timeout: 300_000 })

/** Begins a task, and waits until the server has its run. */
async function taskOf({ server }: World, process: Process): Promise<unknown> {
  const taskId = await begunTask(process, 'support')
  await until(() => server.runs.length === 1)
  return taskId
}

/** Polls until the process follows the run of the server. */
async function untilJoined({ server }: World, { fetch }: Process, taskId: unknown): Promise<void> {
  const isJoined = (): boolean => server.lines.some((line) => /GET .*\/r1\/stream$/.test(line))
  while (!isJoined()) {
    await get(fetch, taskId)
    await sleep(25)
  }
}

const text = (content: string): Json => ({
  status: 'completed',
  result: { content: [{ type: 'text', text: content }] },
})

describe.concurrent('a task whose agent is on a LangGraph server', () => {
  test('is joined by another process when its process dies', async () => {
    await using world = await newWorld()
    const [a, b] = [world.startProcess(), world.startProcess()]
    const taskId = await taskOf(world, a)
    expect(world.server.runs[0]?.body).toMatchObject({
      on_disconnect: 'continue',
      multitask_strategy: 'reject',
    })
    await a.kill()
    await untilJoined(world, b, taskId)
    world.server.end('success', answered('Done'))
    expect(await settledTask(b, taskId)).toMatchObject(text('Done'))
    expect(world.server.runs).toHaveLength(1)
    await until(() => world.server.lines.includes('DELETE /threads/t1'))
  })

  test('gets a result that came while no process had joined', async () => {
    await using world = await newWorld()
    const a = world.startProcess()
    const taskId = await taskOf(world, a)
    await a.kill()
    world.server.end('success', answered('Meanwhile'))
    const b = world.startProcess()
    expect(await settledTask(b, taskId)).toMatchObject(text('Meanwhile'))
    expect(world.server.runs).toHaveLength(1)
  })

  test('is joined by the next process when its process is stopped', async () => {
    await using world = await newWorld()
    const a = world.startProcess()
    const taskId = await taskOf(world, a)
    await a[Symbol.asyncDispose]()
    expect(world.server.lines.filter((line) => /cancel|DELETE/.test(line))).toEqual([])
    const b = world.startProcess()
    await untilJoined(world, b, taskId)
    world.server.end('success', answered('Later'))
    expect(await settledTask(b, taskId)).toMatchObject(text('Later'))
    expect(world.server.runs).toHaveLength(1)
  })

  test('asks what it asked while no process had joined, and goes on with the answer', async () => {
    await using world = await newWorld()
    const a = world.startProcess()
    const taskId = await taskOf(world, a)
    await a.kill()
    world.server.end('interrupted', asking('Which size?'))
    const b = world.startProcess()
    const asked = await settledTask(b, taskId)
    expect(asked).toMatchObject({
      status: 'input_required',
      inputRequests: { '1.i0': { params: { message: expect.stringContaining('Which size?') } } },
    })
    await update(b.fetch, taskId, { '1.i0': { action: 'accept', content: { answer: 'L' } } })
    await until(() => world.server.runs.length === 2)
    await b.kill()
    const c = world.startProcess()
    world.server.end('success', answered('Size L'))
    expect(await settledTask(c, taskId)).toMatchObject(text('Size L'))
    expect(world.server.runs.map(({ body }) => body['command'])).toEqual([
      undefined,
      { resume: { f3fc6cde1fe7734b6705036f31d3bd04: 'L' } },
    ])
  })

  const moved: readonly (readonly [what: string, change: (server: World['server']) => void])[] = [
    ['was answered elsewhere', (server) => server.change(answered('Size M'))],
    ['asks something else now', (server) => server.change(asking('Which colour?'))],
    ['is gone', (server) => server.change(undefined)],
    ['works', (server) => (server.refusal = 409)],
    ['works, of a server for JavaScript', (server) => (server.refusal = 422)],
  ]

  test.each(moved)('ends as unknown if its thread %s before the answer', async (_, change) => {
    await using world = await newWorld()
    const a = world.startProcess()
    const taskId = await taskOf(world, a)
    await a.kill()
    world.server.end('interrupted', asking('Which size?'))
    const b = world.startProcess()
    expect(await settledTask(b, taskId)).toMatchObject({ status: 'input_required' })
    change(world.server)
    await update(b.fetch, taskId, { '1.i0': { action: 'accept', content: { answer: 'L' } } })
    expect(JSON.stringify(await settledTask(b, taskId))).toContain('"outcome_unknown"')
    expect(world.server.runs).toHaveLength(1)
    expect(world.server.lines.filter((line) => line.startsWith('DELETE'))).toEqual([])
  })

  test('goes on with its answer when the state of its thread can be read again', async () => {
    await using world = await newWorld()
    const a = world.startProcess()
    const taskId = await taskOf(world, a)
    await a.kill()
    world.server.end('interrupted', asking('Which size?'))
    const b = world.startProcess()
    expect(await settledTask(b, taskId)).toMatchObject({ status: 'input_required' })
    world.server.failures = 2
    await update(b.fetch, taskId, { '1.i0': { action: 'accept', content: { answer: 'L' } } })
    await until(() => world.server.runs.length === 2)
    await b.kill()
    world.server.end('success', answered('Size L'))
    expect(await settledTask(world.startProcess(), taskId)).toMatchObject(text('Size L'))
  })

  test('is cancelled at the server by another process, also after its process died', async () => {
    await using world = await newWorld()
    const [a, b] = [world.startProcess(), world.startProcess()]
    const taskId = await taskOf(world, a)
    await a.kill()
    await cancel(b.fetch, taskId)
    const isStopped = (): boolean => world.server.runs[0]?.status === 'interrupted'
    await until(isStopped) // the process looks for the agent first
    await until(() => world.server.lines.includes('DELETE /threads/t1'))
    expect(await settledTask(b, taskId)).toMatchObject({ status: 'cancelled' })
  })

  test('is cancelled at the server by the process that has joined', async () => {
    await using world = await newWorld()
    const [a, b] = [world.startProcess(), world.startProcess()]
    const taskId = await taskOf(world, a)
    await a.kill()
    await untilJoined(world, b, taskId)
    await cancel(b.fetch, taskId)
    await until(() => world.server.runs[0]?.status === 'interrupted')
    expect(await settledTask(b, taskId)).toMatchObject({ status: 'cancelled' })
  })

  test('fails if the server forgot the run, and starts no other', async () => {
    await using world = await newWorld()
    const a = world.startProcess()
    const taskId = await taskOf(world, a)
    await a.kill()
    world.server.forget()
    const b = world.startProcess()
    expect(await settledTask(b, taskId)).toMatchObject({
      status: 'failed',
      error: {
        message: expect.stringContaining('does not know the run of this call any more'),
        data: { reason: 'outcome_unknown' },
      },
    })
    expect(world.server.runs).toHaveLength(0)
  })

  test('keeps its question if a process that was frozen gets it too', async () => {
    await using world = await newWorld()
    const [a, b] = [world.startProcess(), world.startProcess()]
    const taskId = await taskOf(world, a)
    while (!world.server.lines.some((line) => line.endsWith('/r1/stream'))) {
      await a.endLease()
      await get(b.fetch, taskId)
      await sleep(25)
    }
    world.server.end('interrupted', asking('Which size?'))
    expect(await settledTask(b, taskId)).toMatchObject({ status: 'input_required' })
    await a[Symbol.asyncDispose]() // it has got the question too
    expect(world.server.lines).not.toContain('DELETE /threads/t1')
    await update(b.fetch, taskId, { '1.i0': { action: 'accept', content: { answer: 'L' } } })
    await until(() => world.server.runs.length === 2)
    expect(world.server.runs[1]?.thread).toBe('t1')
  })

  test('goes on when its stream breaks', async () => {
    await using world = await newWorld()
    const a = world.startProcess()
    const taskId = await taskOf(world, a)
    world.server.cut()
    await untilJoined(world, a, taskId)
    world.server.end('success', answered('Still there'))
    expect(await settledTask(a, taskId)).toMatchObject(text('Still there'))
    expect(world.server.runs).toHaveLength(1)
  })
})
