import { expect, test } from 'vitest'
import { RawClient } from '../test/raw-client.ts'
import { startRecordingProxy } from './proxy/recording-proxy.ts'
import type { ProbeFormName } from './probe-forms.ts'
import { probeForms } from './probe-forms.ts'
import { startScriptedServer } from './scripted-server.ts'

const forms = Object.entries(probeForms) as [ProbeFormName, (typeof probeForms)[ProbeFormName]][]
const answers = forms.flatMap(([name, form]) =>
  typeof form.answer === 'string' ? [] : [{ name, form, answer: form.answer }],
)

test.each(answers)('$name is named after its status', ({ name, answer }) => {
  expect(name.startsWith(String(answer.status))).toBe(true)
})

test.each(answers)('$name: server and proxy answer it alike', async ({ form, answer }) => {
  await using server = await startScriptedServer({ 'server/discover': form.answer })
  await using plain = await startScriptedServer()
  await using proxy = await startRecordingProxy(plain.url)
  proxy.inject({ match: () => true, action: form.answer })
  const { body = '' } = answer
  const expected = typeof body === 'function' ? body('probe-1') : body
  for (const url of [server.url, proxy.url]) {
    await using client = new RawClient(url)
    const got = await client.post({ method: 'server/discover', id: 'probe-1' })
    expect(got.status).toBe(answer.status)
    expect(got.sessionId).toBe(form.orphanSessionId)
    expect(got.type).toBe(
      answer.headers?.['content-type'] ?? (expected === '' ? undefined : 'application/json'),
    )
    expect(await got.text()).toBe(expected)
  }
})

test('each verdict has its forms', () => {
  const verdicts = new Set(forms.map(([, form]) => form.verdict))
  expect([...verdicts].toSorted()).toEqual(['error', 'legacy', 'modern', 'retry'])
})
