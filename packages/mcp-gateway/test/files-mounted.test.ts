import { Hono } from 'hono'
import { expect, test } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import { Runtime } from '../src/gateway/runtime.ts'
import { AgentsAtHand } from './agents-at-hand.ts'
import { modern } from './rpc-requests.ts'
import { TOKENS, giving } from './served-files.ts'

test('serves files below the path at which it is mounted', async () => {
  await using gateway = new Runtime(
    {
      sources: [new AgentsAtHand({ give: giving({ name: 'a.bin', data: new Uint8Array(9) }) })],
      auth: bearerAuth(TOKENS.ada),
      http: { publicUrl: 'https://agents.example/mcp/' },
    },
    { readMaxBytes: 8 },
  )
  const app = new Hono().mount('/mcp', gateway.fetch)
  const headers = { authorization: `Bearer ${TOKENS.ada}`, host: 'agents.example' }
  const ask = (path: string, init: RequestInit = {}): Response | Promise<Response> =>
    app.request(`https://agents.example/mcp${path}`, { headers, ...init })
  const put = await ask('/artifacts/notes.txt', { method: 'PUT', body: 'some notes' })
  expect(put.status).toBe(201)
  const { uri } = (await put.json()) as { uri: string }
  const got = await ask(uri.replace('artifact://', '/artifacts/'))
  expect(await got.text()).toBe('some notes')
  const read = await app.fetch(modern('resources/read', { uri }, headers))
  const { error } = (await read.json()) as { error: { data: { downloadUrl: string } } }
  const { downloadUrl } = error.data
  expect(downloadUrl).toMatch(/^https:\/\/agents\.example\/mcp\/artifacts\/\w{26}\/notes\.txt\?/)
  expect(
    await (await app.request(downloadUrl, { headers: { host: 'agents.example' } })).text(),
  ).toBe('some notes')
})
