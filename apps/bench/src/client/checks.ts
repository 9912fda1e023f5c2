import { TEXT } from './protocol.ts'

/** @throws Error unless this is the result that the server gives. */
export function checkResult(result: unknown): void {
  const content = isObject(result) ? result['content'] : undefined
  const [first]: unknown[] = Array.isArray(content) ? content : []
  if (isObject(first) && first['text'] === TEXT) return
  throw new Error(`A wrong result: ${JSON.stringify(result).slice(0, 200)}`)
}

/** What a worker said, if these are numbers in it. @throws TypeError where one is missing. */
export function numbersFrom<const Key extends string>(
  value: unknown,
  keys: readonly Key[],
): Readonly<Record<Key, number>> {
  if (hasNumbers(value, keys)) return value
  throw new TypeError(`A worker did not tell ${keys.join(', ')}`)
}

function hasNumbers<Key extends string>(
  value: unknown,
  keys: readonly Key[],
): value is Readonly<Record<Key, number>> {
  return isObject(value) && keys.every((key) => typeof value[key] === 'number')
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
