import { expect, test } from 'vitest'
import { lossForms } from './loss-forms.ts'

test.each(Object.entries(lossForms))('%s is named after its status', (name, form) => {
  expect(name.startsWith(String(form.status))).toBe(true)
})

test('where the answer belongs to a request it names its id', () => {
  const echoing = Object.values(lossForms).flatMap(({ body }) =>
    typeof body === 'function' ? [JSON.parse(body(41))] : [],
  )
  expect(echoing.length).toBeGreaterThan(0)
  for (const answer of echoing) expect(answer).toMatchObject({ jsonrpc: '2.0', id: 41 })
})
