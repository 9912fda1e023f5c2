import { describe, expect, test } from 'vitest'
import { answersFrom } from './interrupt-value.ts'

const requestedSchema = {
  type: 'object',
  properties: { nights: { type: 'integer', minimum: 1 }, room: { enum: ['small', 'large'] } },
  required: ['nights'],
}
const requests = { q: { method: 'elicitation/create', params: { message: '?', requestedSchema } } }

function answer(q: unknown): unknown {
  return answersFrom({ key: 'c1:1', responses: { q } }, requests)
}

describe('an answer of a person', () => {
  test.each([
    [{ action: 'accept', content: { nights: 2, room: 'large' } }],
    [{ action: 'accept', content: { nights: 1 } }],
    [{ action: 'decline' }],
    [{ action: 'cancel', content: { nights: 'none' } }],
  ])('accepts %j', (given) => {
    expect(answer(given)).toEqual({ answers: { q: given } })
  })

  test.each([
    [
      { nights: 'two' },
      /^The answer to "q" does not fit: #\/nights: .*integer.* It was: {"nights":"two"}$/,
    ],
    [{ nights: 0 }, /#\/nights/],
    [{ nights: 2, room: 'huge' }, /#\/room/],
    [{}, /nights/],
    [undefined, /nights/],
  ])('asks again after %j, which does not fit the question', (content, problem) => {
    const given = { action: 'accept', ...(content && { content }) }
    expect(answer(given)).toEqual({ problem: expect.stringMatching(problem) })
  })

  test('needs no schema for a page to visit', () => {
    const page = { method: 'elicitation/create', params: { mode: 'url', url: 'https://a.example' } }
    const given = { responses: { q: { action: 'accept' } } }
    expect(answersFrom(given, { q: page })).toEqual({
      answers: given.responses,
    })
  })
})
