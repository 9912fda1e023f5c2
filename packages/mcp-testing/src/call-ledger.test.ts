import { expect, test } from 'vitest'
import { connectModernClient } from '../test/modern-client.ts'
import { RawClient } from '../test/raw-client.ts'
import { connectStockClient } from '../test/stock-client.ts'
import { CallLedger } from './call-ledger.ts'
import { startLegacyServer } from './legacy-server.ts'
import { startModernServer } from './modern-server.ts'
import type { TestTool } from './tools.ts'

const pay: TestTool = {
  name: 'pay',
  inputSchema: { type: 'object', properties: { key: { type: 'string' } } },
  async run(_args, { progress, principal }) {
    await progress(1, 2, 'half')
    return `paid by ${principal ?? 'anyone'}`
  },
}

const one = { tool: 'pay', args: { key: 'k1' }, era: 'legacy' as const }

test('counts calls that reached a server apart from those that were executed', () => {
  const ledger = new CallLedger()
  const first = ledger.receive(one)
  const second = ledger.receive({ ...one, args: {}, meta: { key: 'k2' } })
  ledger.advance(first, 'running')
  ledger.advance(first, 'answered')
  ledger.advance(first, 'cancelled') // too late
  ledger.advance(second, 'cancelled') // before its tool started
  expect(ledger.received('pay')).toBe(2)
  expect(ledger.executions('pay')).toBe(1)
  expect(ledger.find({ key: 'k1' })).toMatchObject([{ state: 'answered', executed: true }])
  expect(ledger.find({ key: 'k2' })).toMatchObject([{ state: 'cancelled', executed: false }])
  expect(ledger.find({ key: 'k1', tool: 'refund' })).toEqual([])
})

test('records how a tool ended', async () => {
  const ledger = new CallLedger()
  const { signal } = new AbortController()
  await ledger.run(ledger.receive(one), signal, () => ({ content: [] }))
  await ledger.run(ledger.receive(one), signal, () => ({ resultType: 'input_required' }))
  const thrown = ledger.run(ledger.receive(one), signal, () => {
    throw new Error('broken')
  })
  await expect(thrown).rejects.toThrow('broken')
  expect(ledger.entries.map(({ state }) => state)).toEqual(['answered', 'asked', 'failed'])
  expect(ledger.executions()).toBe(2)
})

test('resolves a wait when a call reaches the state', async () => {
  const ledger = new CallLedger()
  const entry = ledger.receive(one)
  const running = ledger.waitFor({ tool: 'pay', state: 'running' })
  ledger.advance(entry, 'running')
  await expect(running).resolves.toBe(entry)
  await expect(ledger.waitFor({ executed: true })).resolves.toBe(entry)
})

test('counts for servers of both eras in one ledger, by key and principal', async () => {
  const ledger = new CallLedger()
  await using legacy = await startLegacyServer({ ledger, tools: [pay] })
  await using modern = await startModernServer({ ledger, tools: [pay] })
  await using raw = new RawClient(legacy.url)
  raw.headers = { authorization: 'Bearer ada' }
  await (await raw.initialize()).text()
  await expect((await raw.call('pay', { key: 'k1' })).text()).resolves.toContain('paid by ada')
  await using client = await connectModernClient(modern.url)
  await expect(
    client.callTool({ name: 'pay', arguments: {}, _meta: { key: 'k2' } }),
  ).resolves.toMatchObject({ content: [{ text: 'paid by anyone' }] })

  expect(ledger.find({ principal: 'ada' })).toMatchObject([
    { tool: 'pay', args: { key: 'k1' }, key: 'k1', era: 'legacy', sessionId: raw.sessionId },
  ])
  expect(ledger.find({ era: 'modern' })).toMatchObject([{ key: 'k2', state: 'answered' }])
  expect(ledger.executions('pay')).toBe(2)
})

test('counts a call that a server refuses as received, not as executed', async () => {
  await using server = await startLegacyServer({ tools: [pay] })
  await using client = await connectStockClient(server.url)
  await expect(client.callTool({ name: 'refund' })).rejects.toMatchObject({ code: -32602 })
  server.forgetSessions()
  await expect(client.callTool({ name: 'pay' })).rejects.toMatchObject({ code: 404 })
  await using modern = await startModernServer({ tools: [pay], ledger: server.ledger })
  await using strict = await connectModernClient(modern.url)
  const wrong = { name: 'pay', arguments: { key: 7 } }
  await expect(strict.callTool(wrong)).resolves.toMatchObject({ isError: true })
  expect(server.ledger.received()).toBe(3)
  expect(server.ledger.executions()).toBe(0)
})

test('lists tools of the test, which report progress, in both eras', async () => {
  await using legacy = await startLegacyServer({ tools: [pay] })
  await using modern = await startModernServer({ tools: [pay] })
  await using stock = await connectStockClient(legacy.url)
  await using client = await connectModernClient(modern.url)
  const listed = [{ name: 'pay', inputSchema: pay.inputSchema }]
  expect((await stock.listTools()).tools).toMatchObject(listed)
  expect((await client.listTools()).tools).toMatchObject(listed)
  const seen: unknown[] = []
  const onprogress = (progress: unknown): void => void seen.push(progress)
  await stock.callTool({ name: 'pay' }, undefined, { onprogress })
  await client.callTool({ name: 'pay' }, { onprogress })
  const half = { progress: 1, total: 2, message: 'half' }
  expect(seen).toEqual([half, half])
})

test.each([startLegacyServer, startModernServer])(
  'cancels running calls when the server restarts',
  async (start) => {
    await using server = await start()
    await using client =
      start === startLegacyServer
        ? await connectStockClient(server.url)
        : await connectModernClient(server.url)
    const call = client.callTool({ name: 'slow' })
    call.catch(() => {})
    await server.ledger.waitFor({ tool: 'slow', state: 'running' })
    await server.restart()
    await expect(call).rejects.toBeInstanceOf(Error)
    await expect(server.ledger.waitFor({ state: 'cancelled' })).resolves.toMatchObject({
      tool: 'slow',
      executed: true,
    })
    expect(server.held).toBe(0)
    expect(server.received.find(({ toolName }) => toolName === 'slow')?.end).toBe('cut')
  },
)
