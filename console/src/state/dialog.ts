// The one dialog that is open, if any. Menus and buttons open it from anywhere.
import type { ReactNode } from 'react';
import { Store } from './store';

export const dialog = new Store<ReactNode>(null);
export const openDialog = (content: ReactNode): void => dialog.set(content);
export const closeDialog = (): void => dialog.set(null);
