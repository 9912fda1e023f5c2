import type { AuthorizationCallback } from '../oauth-client-provider.ts'

/** What came back to the redirect URL. */
export interface CallbackAnswer {
  readonly parameters: URLSearchParams
  /** Only a code was given: `state` and `iss` are not there to be checked. */
  readonly isBareCode: boolean
}

/**
 * What a provider's redirect returned, if that is a whole callback. Many return something else, such as
 * the URL that they were given.
 */
export function returnedCallback(value: unknown): CallbackAnswer | undefined {
  if (typeof value !== 'string' && !(value instanceof URL) && !(value instanceof URLSearchParams)) {
    return undefined
  }
  const answer = read(value)
  return answer.isBareCode || !isAnswer(answer.parameters) ? undefined : answer
}

/** @throws TypeError for what holds neither a code nor an error. */
export function callbackFrom(callback: AuthorizationCallback): CallbackAnswer {
  const answer = read(callback)
  if (isAnswer(answer.parameters)) return answer
  throw new TypeError('The callback holds neither a code nor an error: pass the whole query')
}

function isAnswer(parameters: URLSearchParams): boolean {
  return parameters.has('code') || parameters.has('error')
}

function read(callback: AuthorizationCallback): CallbackAnswer {
  if (typeof callback !== 'string') {
    const parameters = callback instanceof URL ? callback.searchParams : callback
    return { parameters, isBareCode: false }
  }
  const text = callback.trim()
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text) && URL.canParse(text)) {
    return { parameters: new URL(text).searchParams, isBareCode: false }
  }
  if (/^\?|(?:^|&)(?:code|error)=/.test(text)) {
    return { parameters: new URLSearchParams(text), isBareCode: false }
  }
  const parameters = new URLSearchParams(text === '' ? {} : { code: text })
  return { parameters, isBareCode: true }
}
