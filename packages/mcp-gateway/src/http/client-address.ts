import { isIP } from 'node:net'

/**
 * Where the address of a client comes from. A header counts only where a proxy of one's own writes it: of
 * `x-forwarded-for` and the like, to which each proxy adds one, the entry that the outermost of them wrote. A
 * function also gets what the application hands on beside the request: `optionHandler` of Hono's `mount`, `server`
 * of Bun.
 */
export type ClientAddress =
  | {
      readonly header: string
      /** Proxies of one's own, one behind the other. @default 1 */
      readonly proxies?: number | undefined
    }
  | ((request: Request, context: unknown) => string | undefined)

/** All whose address cannot be told are counted together. */
const UNKNOWN = 'unknown'

/** The address that limits count by. What is no IP address is none, and what a function throws is its caller's. */
export function clientAddressOf(
  option: ClientAddress,
  { request, context }: { readonly request: Request; readonly context?: unknown },
): string {
  const found =
    typeof option === 'function' ? option(request, context) : forwardedFor(request.headers, option)
  const address = withoutPort(found?.trim() ?? '')
  return isIP(address) === 0 ? UNKNOWN : address
}

function forwardedFor(
  headers: Headers,
  { header, proxies = 1 }: Exclude<ClientAddress, (...args: never) => unknown>,
): string | undefined {
  return headers.get(header)?.split(',').at(-proxies)
}

/** Some proxies write `192.0.2.1:443` and `[2001:db8::1]:443`. */
function withoutPort(text: string): string {
  return /^\[([^\]]+)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text
}
