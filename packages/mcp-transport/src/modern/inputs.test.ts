import { describe, expect, test } from 'vitest'
import {
  INPUT_CAPABILITIES,
  toClientRequest,
  parseInputRequired,
  mayRequireInput,
} from './inputs.ts'

describe('input required', () => {
  const form = { method: 'elicitation/create', params: { message: 'Go on?' } }

  describe('a result that requires input', () => {
    test.each([
      ['requests', { inputRequests: { a: form } }],
      ['state', { requestState: '' }],
      ['both', { inputRequests: { a: form, b: { method: 'roots/list' } }, requestState: ' s ' }],
      ['no request, but state', { inputRequests: {}, requestState: 's' }],
    ])('is parsed with %s', (_name, result) => {
      expect(parseInputRequired({ resultType: 'input_required', ...result })).toEqual(result)
    })

    test.each([
      ['neither', {}],
      ['state that is no text', { requestState: { round: 1 } }],
      ['a list of requests', { inputRequests: [form] }],
      ['a request without a method', { inputRequests: { a: { params: {} } } }],
      [
        'parameters that are no object',
        { inputRequests: { a: { method: 'roots/list', params: [] } } },
      ],
    ])('is undefined with %s, which cannot be answered', (_name, result) => {
      expect(parseInputRequired(result)).toBeUndefined()
    })
  })

  test('allows only three methods to require input', () => {
    const methods = [
      'tools/call',
      'prompts/get',
      'resources/read',
      'tools/list',
      'completion/complete',
    ]
    expect(methods.filter(mayRequireInput)).toEqual(['tools/call', 'prompts/get', 'resources/read'])
  })

  test.each([
    ['elicitation/create', 'elicitation'],
    ['sampling/createMessage', 'sampling'],
    ['roots/list', 'roots'],
    ['ping', undefined],
    ['tools/call', undefined],
  ])('requires for %s the capability %s', (method, capability) => {
    expect(INPUT_CAPABILITIES[method]).toBe(capability)
  })

  describe('a request for the client of SDK v1', () => {
    test('has the id that the schema requires, for an elicitation with a URL', () => {
      const request = {
        method: 'elicitation/create',
        params: { mode: 'url', url: 'https://a.example' },
      }
      expect(toClientRequest(request)).toEqual({
        method: 'elicitation/create',
        params: { ...request.params, elicitationId: expect.stringMatching(/^[0-9a-f-]{36}$/) },
      })
      const named = { ...request, params: { ...request.params, elicitationId: 'own' } }
      expect(toClientRequest(named).params).toMatchObject({ elicitationId: 'own' })
    })

    test('has unchanged parameters otherwise', () => {
      expect(toClientRequest(form).params).toEqual(form.params)
      expect(toClientRequest({ method: 'roots/list' }).params).toEqual({})
    })
  })
})
