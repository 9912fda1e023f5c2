import { expect, test } from 'vitest'

import { maskedConfig } from './masked-config.ts'
import { readConfig } from './config-file.ts'

test.each([
  { secrets: 'S3CRET' },
  { secrets: { stateKey: 'S3CRET' } },
  { auth: { tokens: 'S3CRET' } },
  { auth: { tokens: ['S3CRET'] } },
  { auth: { tokens: { ci: 'S3CRET' } } },
  { auth: { tokens: { ci: { sha256: 'S3CRET' } } } },
  { auth: { tokens: { ci: { token: ['S3CRET'] } } } },
  { agents: { sources: [{ type: 'langgraph-server', url: 'https://a.test', headers: 'S3CRET' }] } },
  {
    agents: { sources: [{ type: 'langgraph-server', url: 'https://a.test', apiKey: ['S3CRET'] }] },
  },
  { agents: { sources: [{ type: 'a2a', cards: [{ url: 'https://a.test', headers: 'S3CRET' }] }] } },
  { store: { type: 'redis', url: 'http://:S3CRET@localhost' } },
])('does not show a secret that is in the wrong place: %j', async (content) => {
  await expect(readConfig({ content })).rejects.toThrow(
    expect.objectContaining({ message: expect.not.stringContaining('S3CRET') }),
  )
})

test('masks the secrets of all sections', async () => {
  const content = {
    agents: {
      sources: [
        {
          type: 'langgraph-server',
          url: 'https://a.test/?k=S7',
          apiKey: 'S1',
          headers: { 'x-key': 'S2' },
        },
        { type: 'a2a', cards: [{ url: 'https://b.test', headers: { authorization: 'S3' } }] },
      ],
    },
    auth: {
      mode: 'bearer',
      tokens: { ci: { token: 'S4', scopes: ['*'] }, cd: { sha256: 'a'.repeat(64) } },
    },
    secrets: { stateKey: 'S5'.repeat(20) },
    store: { type: 'redis', url: 'redis://user:S6@localhost:6379' },
  }
  const { config, schema } = await readConfig({ content })
  const shown = JSON.stringify(maskedConfig(config, schema))
  expect(shown).not.toMatch(/S[1-7]|aaaa/)
  expect(shown).toContain('"x-key":"[masked]"')
  expect(shown).toContain('https://b.test')
  expect(shown).toContain('"scopes":["*"]')
})

test.each([
  'redis://:S3CR/ET@localhost:6379',
  'redis://user:12/S3CRET@localhost',
  'redis://user:p@S3CRET@localhost',
  "rediss://user:p'S3CRET@localhost",
  'https://user:p?S3CRET@a.test',
  'https://user:p#S3CRET@a.test',
])('masks the whole password of %s', async (url) => {
  const { schema } = await readConfig({ content: '' })
  const shown = JSON.stringify(maskedConfig({ store: { url } }, schema))
  expect(shown).not.toMatch(/S3CR|p@/)
  expect(shown).toContain('://[redacted]@')
  await expect(
    readConfig({ content: { store: { type: 'redis', url: `x${url}` } } }),
  ).rejects.toThrow(expect.objectContaining({ message: expect.not.stringContaining('S3CR') }))
})

test('shows a URL without a password as it is', async () => {
  const { schema } = await readConfig({ content: '' })
  const url = 'https://a.test:8443/@scope/card.json'
  expect(maskedConfig({ url }, schema)).toEqual({ url })
})
