// The time, once a second, for ages and elapsed times.
import { useEffect } from 'react';
import { Store, useStore } from './store';

const clock = new Store(Date.now());
let users = 0;
let timer: number | undefined;

export function useNow(): number {
  useEffect(() => {
    users += 1;
    timer ??= window.setInterval(() => clock.set(Date.now()), 1000);
    return () => {
      users -= 1;
      if (users > 0) return;
      window.clearInterval(timer);
      timer = undefined;
    };
  }, []);
  return useStore(clock);
}
