import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterEach, beforeEach, expect, test } from 'vitest'

import type { Gateway } from '../src/gateway.ts'
import { createGateway } from '../src/gateway.ts'
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { WireSession } from './wire-session.ts'

let dir: string

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'restart-'))
})

afterEach(() => rm(dir, { recursive: true }))

interface Running {
  readonly gateway: Gateway
  readonly store: DiskGatewayStore
  readonly url: string
}

async function start(): Promise<Running> {
  const store = new DiskGatewayStore(dir)
  const source = new AgentsAtHand({ echo: () => [{ type: 'done', text: 'Here I am' }] })
  const gateway = createGateway({ sources: [source], store, log: false })
  const { url } = await gateway.listen({ port: 0 })
  return { gateway, store, url }
}

const call = {
  jsonrpc: '2.0',
  id: 7,
  method: 'tools/call',
  params: { name: 'echo', arguments: { message: 'Hi' } },
}

test.each([
  ['stops', ['gateway', 'store']],
  ['loses its store before it ends, as in a crash', ['store', 'gateway']],
] as const)(
  'goes on with a session of a process with the same folder that %s',
  async (_, order) => {
    const first = await start()
    const session = await WireSession.open(first.url)
    for (const part of order) await first[part].close()

    const second = await start()
    try {
      expect(await session.ask(second.url, call)).toMatchObject({
        status: 200,
        message: { result: { content: [{ text: 'Here I am' }] } },
      })
      const ended = await fetch(second.url, { method: 'DELETE', headers: session.headers })
      expect(ended.status).toBe(200)
      expect((await session.post(second.url, call)).status).toBe(404)
    } finally {
      await second.gateway.close()
      await second.store.close()
    }
    const third = await start()
    try {
      expect((await session.post(third.url, call)).status).toBe(404)
    } finally {
      await third.gateway.close()
      await third.store.close()
    }
  },
)

test('lets a client listen again after a restart', async () => {
  const first = await start()
  const session = await WireSession.open(first.url)
  const headers = { ...session.headers, accept: 'text/event-stream' }
  const listening = await fetch(first.url, { headers })
  expect(listening.status).toBe(200)
  await first.gateway.close()
  await first.store.close()
  await listening.body?.cancel().catch(() => undefined)

  const second = await start()
  try {
    const again = await fetch(second.url, { headers })
    expect(again.status).toBe(200)
    await again.body?.cancel()
  } finally {
    await second.gateway.close()
    await second.store.close()
  }
})
