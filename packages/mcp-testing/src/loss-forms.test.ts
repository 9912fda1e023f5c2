import { expect, test } from 'vitest'
import { lossForms } from './loss-forms.ts'

test.each(Object.entries(lossForms))('%s has its status at the start of its name', (name, form) => {
  expect(name.startsWith(String(form.status))).toBe(true)
})

test('puts the id of the request into answers that belong to it', () => {
  const echoing = Object.values(lossForms).flatMap(({ body }) =>
    typeof body === 'function' ? [JSON.parse(body(41))] : [],
  )
  expect(echoing.length).toBeGreaterThan(0)
  for (const answer of echoing) expect(answer).toMatchObject({ jsonrpc: '2.0', id: 41 })
})
