import { once } from 'node:events'
import { request } from 'node:http'
import { expect, test } from 'vitest'
import { startGuardedServer } from './guarded-server.ts'
import { startTestServer } from './loopback-server.ts'
import { startModernServer } from './modern-server.ts'

/** Sends a form, and returns the fields of the answer. */
async function post(url: URL, form: Record<string, string> = {}): Promise<Record<string, unknown>> {
  const response = await fetch(url, { method: 'POST', body: new URLSearchParams(form) })
  const fields: Record<string, unknown> = JSON.parse(await response.text())
  return fields
}

async function statusOf(url: string, token: unknown): Promise<number> {
  const headers = { authorization: `Bearer ${String(token)}` }
  const response = await fetch(url, { method: 'POST', headers, body: '{}' })
  await response.arrayBuffer()
  return response.status
}

test('gives tokens that the guarded server accepts until they are revoked', async () => {
  await using server = await startGuardedServer(await startModernServer())
  const form = { grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange', audience: 'shop' }
  const { access_token: token } = await post(new URL('/token', server.url), form)
  expect(await statusOf(server.url, 'other')).toBe(401)
  expect(await statusOf(server.url, token)).not.toBe(401)
  expect(server.tokenRequests.map((one) => one.get('audience'))).toEqual(['shop'])
  server.revoke()
  expect(await statusOf(server.url, token)).toBe(401)
})

test.each([
  ['grant', { access_token: 'granted-1' }],
  ['deny', { error: 'access_denied' }],
] as const)('lets a device wait until the user has entered the code: %s', async (how, answer) => {
  await using server = await startGuardedServer(await startModernServer())
  const tokens = new URL('/token', server.url)
  expect(await post(new URL('/device', server.url))).toMatchObject({ user_code: 'CODE-1' })
  expect(await post(tokens)).toEqual({ error: 'authorization_pending' })
  server.enterCode(how)
  expect(await post(tokens)).toMatchObject(answer)
})

test('breaks its answer if the guarded server breaks its own', async () => {
  const inner = await startTestServer((_request, response) => {
    response.write('{"jsonrpc":', () => response.destroy())
  })
  await using server = await startGuardedServer(inner)
  await expect(statusOf(server.url, 'granted-1')).rejects.toThrow('terminated')
})

test('survives a client that leaves before its token request is complete', async () => {
  await using server = await startGuardedServer(await startModernServer())
  const tokens = new URL('/token', server.url)
  const headers = { 'content-length': '100', expect: '100-continue' }
  const leaving = request(tokens, { method: 'POST', headers })
  leaving.on('error', () => {}).flushHeaders()
  await once(leaving, 'continue') // the server reads the body now
  leaving.destroy()
  expect(await post(tokens)).toMatchObject({ access_token: 'granted-1' })
})
