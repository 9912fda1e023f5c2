/** A promise and the functions that settle it. */
export interface Deferred<Value> {
  readonly promise: Promise<Value>
  readonly resolve: (value: Value) => void
  readonly reject: (error: Error) => void
}

/**
 * Lets a test decide when something happens: a handler awaits `promise`, and the test resolves it.
 *
 * @example
 * ```ts
 * import { deferred, startLegacyServer } from '@x/mcp-testing'
 *
 * const paid = deferred<string>()
 * const pay = { name: 'pay', run: () => paid.promise }
 * await using server = await startLegacyServer({ tools: [pay] })
 * paid.resolve('paid') // the call of `pay` ends now
 * ```
 */
export function deferred<Value = void>(): Deferred<Value> {
  let resolve!: Deferred<Value>['resolve']
  let reject!: Deferred<Value>['reject']
  const promise = new Promise<Value>((onValue, onError) => {
    resolve = onValue
    reject = onError
  })
  return { promise, resolve, reject }
}
