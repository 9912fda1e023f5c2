import { expect, test } from 'vitest'
import { startGuardedServer } from './guarded-server.ts'
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
