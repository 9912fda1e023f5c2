import { START, StateGraph } from '@langchain/langgraph'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import * as z from 'zod'

import { createGateway } from '../src/gateway.ts'
import type { GatewayOptions } from '../src/options.ts'
import { stderrLogger } from '../src/internal/logger.ts'
import { WireSession } from './wire-session.ts'

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c'

const graph = new StateGraph(z.object({ message: z.string() }))
  .addNode('fail', function payInvoice(): never {
    throw new Error('No connection, token=abc123')
  })
  .addEdge(START, 'fail')
  .compile()

let written = ''

beforeEach(() => {
  written = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    written += String(text)
    return true
  })
})

afterEach(() => vi.restoreAllMocks())

async function callOnce(options: GatewayOptions = {}): Promise<void> {
  await using gateway = createGateway({
    agents: { pay: { graph, description: 'Pays' } },
    ...options,
  })
  const { url } = await gateway.listen({ port: 0 })
  const session = await WireSession.open(url)
  const { message } = await session.ask(url, {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name: 'pay',
      arguments: { message: 'Hi' },
      _meta: { traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01` },
    },
  })
  expect(message).toMatchObject({ result: { isError: true } })
}

test('writes a failed run to standard error, with its stack and trace, and without secrets', async () => {
  await callOnce()
  expect(written).toMatch(
    /mcp-gateway error: A run failed \{.*"runId":"run_[\da-f]{16}","tool":"pay"/,
  )
  expect(written).toContain(`"traceId":"${TRACE_ID}"`)
  expect(written).toMatch(/^ {4}at .*payInvoice/m)
  expect(written).not.toContain('abc123')
})

test('says nothing of a gateway that works', async () => {
  await using gateway = createGateway({ agents: { pay: { graph, description: 'Pays' } } })
  await gateway.listen({ port: 0 })
  await gateway.registry.start()
  expect(written).toBe('')
})

test('hands warnings and failed runs to a logger in its place', async () => {
  const entries: unknown[] = []
  const logger = {
    warn: (message: string) => void entries.push(['warn', message]),
    error: (message: string, details?: object) => void entries.push(['error', message, details]),
  }
  await callOnce({ log: logger, tools: { overrides: { 'nobody/nothing': { title: 'Nothing' } } } })
  expect(written).toBe('')
  expect(entries).toEqual([
    ['warn', expect.stringContaining('matches no skill now')],
    ['error', 'A run failed', expect.objectContaining({ tool: 'pay', traceId: TRACE_ID })],
  ])
})

test('writes nothing with `log: false`', async () => {
  await callOnce({ log: false })
  expect(written).toBe('')
})

test('leaves out entries of a minute in which there are too many', async () => {
  vi.useFakeTimers({ now: 0, toFake: ['Date'] })
  try {
    const logger = stderrLogger()
    for (let count = 0; count < 200; count += 1) logger.warn('Odd')
    expect(written.match(/Odd/g)).toHaveLength(100)
    expect(written.match(/left out/g)).toHaveLength(1)
    vi.setSystemTime(60_000)
    logger.warn('Odd again')
    expect(written).toContain('Odd again')
  } finally {
    vi.useRealTimers()
  }
})
