/** Who is calling. Comes only from a credential that was verified, never from what a client says of itself. */
export interface Principal {
  /** Stable: `issuer|claim`, the name of a static token, or that of everybody. Part of every key that keeps callers apart. */
  readonly id: string
  /** What the credential allows; compared with what a tool needs. */
  readonly scopes: readonly string[]
  /** Nobody was verified. Such callers share one id, and are kept apart by handles that cannot be guessed. */
  readonly isAnonymous: boolean
  /** Of the token, for agents that need more than the id. Never logged. */
  readonly claims: Readonly<Record<string, unknown>>
}

/** Whether a principal may do what needs this scope. `*` is everything. Fails closed. */
export function isAllowed(principal: Principal, scope: string): boolean {
  return principal.scopes.includes(scope) || principal.scopes.includes('*')
}

/**
 * Whether a caller was admitted, and not refused with a response. `instanceof Response` would not do: a server may replace
 * that class while the process runs (`@hono/node-server` 1 does), and a refusal would pass for a caller.
 */
export function isPrincipal(answer: Principal | object): answer is Principal {
  return (
    'id' in answer &&
    typeof answer.id === 'string' &&
    'scopes' in answer &&
    Array.isArray(answer.scopes)
  )
}

/** Returns the text by which the slots and rates of a caller are counted: its id, or its network if it has no name. */
export function slotOwnerOf({
  principal,
  address,
}: {
  readonly principal: Principal
  readonly address?: string | undefined
}): string {
  const hasAddress = principal.isAnonymous && address !== undefined
  return hasAddress ? `address\0${subnetOf(address)}` : `principal\0${principal.id}`
}

/** One customer has a whole /64 of IPv6, and could change address with each request. */
export function subnetOf(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined || !address.includes(':')) return mapped ?? address
  const [head = '', tail] = (address.split('%')[0] ?? '').toLowerCase().split('::')
  const groups = head === '' ? [] : head.split(':')
  const behind = tail === undefined || tail === '' ? [] : tail.split(':')
  if (tail !== undefined) groups.push(...Array<string>(8 - groups.length - behind.length).fill('0'))
  const first = [...groups, ...behind].slice(0, 4)
  return `${first.map((group) => group.replace(/^0+(?=.)/, '')).join(':')}::/64`
}

/** Something that needs scopes: a tool. */
export interface Guarded {
  readonly scopes: readonly string[]
}

/** Whether a caller may see this and use it: it needs all scopes. What cannot be decided is a no. */
export function mayUse(principal: Principal, guarded: Guarded): boolean {
  try {
    return guarded.scopes.every((scope) => isAllowed(principal, scope))
  } catch {
    return false
  }
}
