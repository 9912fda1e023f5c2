import { isRecord } from '@x/internal'

/** Resources that one stream may follow. */
const MAX_FOLLOWED = 256

export interface OwnFilter {
  /** Of `subscriptions/listen`, naming nothing but the caller's own. */
  readonly body: unknown
  /** URIs that it follows. */
  readonly followed: readonly string[]
}

/**
 * The SDK honours whatever URI a listener names, to the letter: those of others are taken out, and the others
 * named as changes will name them, so that the acknowledgement shows what is honoured.
 *
 * @param followed as changes name it; `undefined`: it is not the caller's
 */
export async function ownFilter(
  body: unknown,
  followed: (uri: string) => Promise<string | undefined> | undefined,
): Promise<OwnFilter> {
  const asked = { body, followed: [] }
  if (!isRecord(body) || !isRecord(body['params'])) return asked
  const { params } = body
  const { notifications } = params
  if (!isRecord(notifications) || !Array.isArray(notifications['resourceSubscriptions'])) {
    return asked
  }
  const uris: unknown[] = notifications['resourceSubscriptions']
  const own = new Set<string>()
  for (const uri of uris.slice(0, MAX_FOLLOWED)) {
    if (typeof uri !== 'string') return asked // the SDK says what is wrong with it
    const name = await followed(uri)
    if (name !== undefined) own.add(name)
  }
  const honoured = { ...notifications, resourceSubscriptions: [...own] }
  return { body: { ...body, params: { ...params, notifications: honoured } }, followed: [...own] }
}
