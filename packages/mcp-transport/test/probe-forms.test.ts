import { startRecordingProxy, startScriptedServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import type { ProbeFormName } from './probe-forms.ts'
import { probeForms } from './probe-forms.ts'

const forms = Object.entries(probeForms) as [ProbeFormName, (typeof probeForms)[ProbeFormName]][]
const answers = forms.flatMap(([name, form]) =>
  typeof form.answer === 'string' ? [] : [{ name, form, answer: form.answer }],
)

test.each(answers)('$name has its status at the start of its name', ({ name, answer }) => {
  expect(name.startsWith(String(answer.status))).toBe(true)
})

test.each(answers)(
  '$name has the same response from the server and the proxy',
  async ({ form, answer }) => {
    await using server = await startScriptedServer({ 'server/discover': answer })
    await using plain = await startScriptedServer()
    await using proxy = await startRecordingProxy(plain.url)
    proxy.inject({ match: () => true, action: answer })
    const { body = '' } = answer
    const expected = typeof body === 'function' ? body('probe-1') : body
    for (const url of [server.url, proxy.url]) {
      const request = { jsonrpc: '2.0', method: 'server/discover', id: 'probe-1' }
      const got = await fetch(url, { method: 'POST', body: JSON.stringify(request) })
      expect(got.status).toBe(answer.status)
      expect(got.headers.get('mcp-session-id')).toBe(form.orphanSessionId ?? null)
      expect(got.headers.get('content-type')).toBe(
        answer.headers?.['content-type'] ?? (expected === '' ? null : 'application/json'),
      )
      expect(await got.text()).toBe(expected)
    }
  },
)

test('has forms for each verdict', () => {
  const verdicts = new Set(forms.map(([, form]) => form.verdict))
  expect([...verdicts].toSorted()).toEqual(['error', 'legacy', 'modern', 'retry'])
})
