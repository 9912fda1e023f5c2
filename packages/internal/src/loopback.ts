/** Returns whether a host name or address always means this machine. An IPv6 address may stand in brackets. */
export function isLoopback(host: string): boolean {
  return /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/i.test(host)
}
