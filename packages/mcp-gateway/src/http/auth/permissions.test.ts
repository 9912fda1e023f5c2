import { expect, test } from 'vitest'

import { bearerAuth } from './bearer.ts'
import { scopeRefusal, type ScopeCheck } from './permissions.ts'
import { mayUse, type Principal } from '../../internal/principal.ts'

const principal: Principal = {
  id: 'ci',
  scopes: ['agent:shop:call'],
  isAnonymous: false,
  claims: {},
}

const tools: Readonly<Record<string, Pick<Principal, 'scopes'>>> = {
  shop_order: { scopes: ['agent:shop:call'] },
  shop_refund: { scopes: ['agent:shop:call', 'refund'] },
}

const check: ScopeCheck = {
  principal,
  auth: bearerAuth('any'),
  request: { method: 'POST', url: 'https://gateway.example/mcp', headers: new Headers() },
  plan: { byName: (name) => tools[name] },
}

const callOf = (name: unknown): object => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name },
})

test('requires all scopes of a tool, and accepts `*` for all', () => {
  expect(mayUse(principal, { scopes: ['agent:shop:call'] })).toBe(true)
  expect(mayUse(principal, { scopes: ['agent:shop:call', 'refund'] })).toBe(false)
  expect(mayUse({ ...principal, scopes: ['*'] }, { scopes: ['refund'] })).toBe(true)
  expect(mayUse({ ...principal, scopes: [] }, { scopes: ['refund'] })).toBe(false)
})

test('answers 403 for a call without its scopes, and names exactly these', async () => {
  const { tool, response } = scopeRefusal(callOf('shop_refund'), check) ?? {}
  expect(tool).toBe('shop_refund')
  expect(response?.status).toBe(403)
  expect(response?.headers.get('www-authenticate')).toBe(
    'Bearer error="insufficient_scope", scope="agent:shop:call refund"',
  )
  await expect(response?.json()).resolves.toEqual({ error: 'insufficient_scope' })
})

test.each([
  callOf('shop_order'),
  callOf('no_such_tool'),
  callOf(7),
  { method: 'tools/list' },
  { method: 'tools/call' },
  'text',
  null,
  undefined,
])('lets other messages pass: %j', (body) => {
  expect(scopeRefusal(body, check)).toBeUndefined()
})
