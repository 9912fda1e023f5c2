import { temporaryFolder } from '@x/internal/testing'
// Calls whose process is killed before their end.
import { startModernServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { elicitationResume, type InterruptResume } from '../src/index.ts'
import type { Told } from './asking-process.ts'
import { startAskingServer } from './asking-server.ts'
import { startGraph } from './graph-process.ts'

function accept({ interrupts }: Told, answer: string): InterruptResume {
  const [interrupt] = interrupts
  if (interrupt === undefined) throw new Error('Nobody was asked')
  const keys = Object.keys(interrupt.value.requests)
  const content = { value: answer, name: answer }
  return elicitationResume(
    interrupt,
    Object.fromEntries(keys.map((key) => [key, { action: 'accept', content }])),
  )
}

const calls = [{ name: 'add', args: { a: 1, b: 2 } }, { name: 'ask_twice' }]

test.each([
  { store: true, kind: 'fanOutToolCalls' },
  { store: false, kind: 'fanOutToolCalls' },
  { store: false, kind: 'sub-agent' },
] as const)(
  'sends two rounds of a call from three processes, killed between the two POSTs, and pays once (%o)',
  async ({ store, kind }) => {
    await using folder = await temporaryFolder()
    await using server = await startModernServer()
    await using one = await startGraph(server.url, folder.path, { store })
    const first = await one.ask({ calls, kind })
    expect(first.interrupts).toHaveLength(1)
    await one.kill()

    await using two = await startGraph(server.url, folder.path, { store })
    const second = await two.ask({ calls, kind, resume: accept(first, 'Ada') })
    expect(second.interrupts).toHaveLength(1)
    await two.kill()

    await using three = await startGraph(server.url, folder.path, { store })
    const done = await three.ask({ calls, kind, resume: accept(second, 'Lovelace') })
    expect(done.interrupts).toEqual([])
    expect(done.answers['call-1']).toMatch(/^success: .*Ada.*Lovelace/)
    expect(server.executions('add')).toBe(1)
    // One request for each round: no process has sent a request again.
    expect(server.ledger.received('ask_twice')).toBe(3)
    expect(JSON.stringify(first.interrupts)).not.toContain('base64')
  },
)

test('executes a call at least once without a store', async () => {
  await using folder = await temporaryFolder()
  await using server = await startModernServer()
  const slow = [{ name: 'slow' }]
  await using one = await startGraph(server.url, folder.path, { store: false })
  one.tell({ calls: slow })
  await server.ledger.waitFor({ tool: 'slow', state: 'running' })
  await one.kill()
  await server.ledger.waitFor({ tool: 'slow', state: 'cancelled' })

  await using two = await startGraph(server.url, folder.path, { store: false })
  const going = two.ask({ calls: slow, goOn: true })
  await server.ledger.waitFor({ tool: 'slow', state: 'running' })
  server.release('at last')
  expect((await going).answers['call-0']).toBe('success: at last')
})

test('reports an unknown outcome in another process for a server with sessions, where only the own process can continue', async () => {
  await using folder = await temporaryFolder()
  await using server = await startAskingServer()
  const asking = [{ name: 'pay' }, { name: 'ask' }]
  await using one = await startGraph(server.url, folder.path)
  const stopped = await one.ask({ calls: asking })
  expect(stopped.interrupts).toHaveLength(1)
  await one.kill()

  await using two = await startGraph(server.url, folder.path)
  const done = await two.ask({ calls: asking, resume: accept(stopped, 'Ada') })
  expect(done.answers).toMatchObject({
    'call-0': 'success: paid',
    'call-1': expect.stringMatching(/^error: .*may or may not have been executed/),
  })
  expect(server.calls('pay')).toBe(1)
  expect(server.calls('ask')).toBe(1)
})
