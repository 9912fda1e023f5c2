import { expect, test } from 'vitest'
import { TextBody } from './text-body.ts'

test('puts characters together that chunks have cut', () => {
  const bytes = Buffer.from('Grüße → 👋')
  const body = new TextBody(100)
  for (const byte of bytes) expect(body.add(Buffer.of(byte))).toBe(true)
  expect(body.text()).toBe('Grüße → 👋')
})

test('is empty without a chunk', () => {
  expect(new TextBody(10).text()).toBe('')
})

test('says when the limit is passed, and keeps what fits', () => {
  const body = new TextBody(5)
  expect(body.add(Buffer.from('abc'))).toBe(true)
  expect(body.add(Buffer.from('de'))).toBe(true)
  expect(body.add(Buffer.from('f'))).toBe(false)
  expect(body.add(Buffer.from('g'))).toBe(false)
  expect(body.text()).toBe('abcde')
})

test('cuts the chunk that passes the limit', () => {
  const body = new TextBody(2)
  expect(body.add(Buffer.from('abcdef'))).toBe(false)
  expect(body.text()).toBe('ab')
})
