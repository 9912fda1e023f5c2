import type { GatewayObserver, TraceCarrier } from './observer.ts'

/** Several observers as one. What one of them throws, the others and the gateway do not feel. */
export function allObservers(observers: readonly GatewayObserver[]): Required<GatewayObserver> {
  const each = (tell: (observer: GatewayObserver) => void): void => {
    for (const observer of observers) {
      try {
        tell(observer)
      } catch {
        // An observer that fails has nobody to tell: it is what others are told by.
      }
    }
  }
  return {
    callStarted: (call) => {
      let trace: TraceCarrier | undefined
      each((observer) => {
        trace = observer.callStarted?.(call) ?? trace
      })
      return trace
    },
    activate: (call, run) => {
      let isRun = false
      const once = (): void => {
        if (isRun) return
        isRun = true
        run()
      }
      let next = once
      for (const observer of observers) {
        const inner = next
        if (observer.activate) next = () => observer.activate?.(call, inner)
      }
      try {
        next()
      } catch {
        // As above; the call goes on without this context.
      }
      once()
    },
    callEnded: (call, end) => each((observer) => observer.callEnded?.(call, end)),
    requestRefused: (refusal) => each((observer) => observer.requestRefused?.(refusal)),
    fileTransferred: (transfer) => each((observer) => observer.fileTransferred?.(transfer)),
    runEvent: (event) => each((observer) => observer.runEvent?.(event)),
    sessionOpened: () => each((observer) => observer.sessionOpened?.()),
    sessionClosed: (end) => each((observer) => observer.sessionClosed?.(end)),
    listChanged: (list) => each((observer) => observer.listChanged?.(list)),
    warned: (message, cause) => each((observer) => observer.warned?.(message, cause)),
  }
}
