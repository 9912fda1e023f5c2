import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { createGateway } from '../src/gateway.ts'
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'
import { AgentsAtHand, echo } from './agents-at-hand.ts'

const token = 'the-token-of-ada-0123456789'

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
  'io.github.x-mcp/idempotency-key': 'payment-17',
}

function payment(): RequestInit {
  const params = { name: 'pay', arguments: { message: 'Pay' }, _meta: META }
  return {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'pay',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  }
}

test(
  'answers "outcome unknown" within 5 s after a process with a call was killed',
  { timeout: 30_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'crash-'))
    const program = fileURLToPath(new URL('idempotent-process.ts', import.meta.url))
    const args = ['--conditions=mcp-source', program, folder, token]
    const child = spawn(sourceNode, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
    const port = Number((await lines.next()).value)
    const lost = fetch(`http://127.0.0.1:${port}/mcp`, payment()).catch(() => 'lost')
    expect((await lines.next()).value).toBe('begun')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const diedAt = performance.now()
    expect(await lost).toBe('lost')

    await using store = new DiskGatewayStore(folder)
    const agents = new AgentsAtHand({ pay: echo })
    const auth = bearerAuth({ ada: { token, scopes: ['*'] } })
    await using gateway = createGateway({ sources: [agents], auth, store })
    const { url } = await gateway.listen({ port: 0 })
    const reason = async (): Promise<string> => {
      const answer = await fetch(url, payment())
      return /"reason":"(\w+)"/.exec(await answer.text())?.[1] ?? 'none'
    }
    await expect.poll(reason, { timeout: 20_000 }).toBe('outcome_unknown')
    expect(performance.now() - diedAt).toBeLessThan(15_000) // 5 s, and the load of the machine
    expect(agents.calls).toHaveLength(0)
    await rm(folder, { recursive: true })
  },
)
